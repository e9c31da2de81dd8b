//! How many codes a namespace has in the store, and how many each client created.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use raindrop_core::issue::ClaimError;
use tokio::time::Instant;

use super::settings::{RETRY_LATE, SegmentSettings};

/// How long the number of codes is believed at least: other nodes create codes too.
const COUNT_AGAIN: Duration = Duration::from_secs(1);
/// Counting takes at most this part of the time.
const COUNTING_PART: u32 = 20;
/// How long a client's codes count.
const DAY: Duration = Duration::from_hours(24);

/// The codes that were created on demand.
#[derive(Debug, Default)]
pub(super) struct Creations(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// How many codes the store holds, as last counted, and those that were created since.
    stored: u64,
    /// How many reservations are under way that may each create a code.
    under_way: u64,
    count_at: Option<Instant>,
    by_client: HashMap<u64, usize>,
    day_ends: Option<Instant>,
    /// Codes of the table that were not created.
    refused: Vec<String>,
}

/// A permission to create one code. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct Creation<'a> {
    creations: &'a Creations,
    client: Option<u64>,
    is_created: bool,
}

impl Creations {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a code of the table was not created.
    pub(super) fn refuse(&self, code: &str) {
        self.counts().refused.push(code.to_owned());
    }

    /// Returns the codes of the table that were not created since the last call.
    pub(super) fn take_refused(&self) -> Vec<String> {
        std::mem::take(&mut self.counts().refused)
    }

    /// Whether the codes in the store must be counted again.
    pub(super) fn must_count(&self, now: Instant) -> bool {
        self.counts().count_at.is_none_or(|count_at| count_at <= now)
    }

    /// Takes over how many codes the store holds, which was asked for at this instant.
    pub(super) fn counted(&self, stored: u64, began: Instant) {
        let mut counts = self.counts();
        counts.stored = stored;
        counts.count_at = Some(began + COUNT_AGAIN.max(COUNTING_PART * began.elapsed()));
    }

    /// Lets a client create a code, or returns why it may not.
    pub(super) fn begin(
        &self,
        client: Option<u64>,
        settings: &SegmentSettings,
    ) -> Result<Creation<'_>, ClaimError> {
        let (max, share) = (settings.codes_max, settings.codes_max_per_client);
        let mut counts = self.counts();
        if counts.stored + counts.under_way >= max as u64 {
            return Err(ClaimError::TooManyCodes { max, retry_after: RETRY_LATE });
        }
        if let Some(client) = client {
            let now = Instant::now();
            let day_ends = *counts.day_ends.get_or_insert(now + DAY);
            if day_ends <= now {
                counts.by_client.clear();
                counts.day_ends = Some(now + DAY);
            }
            let created = counts.by_client.entry(client).or_default();
            if *created >= share {
                let retry_after = day_ends.saturating_duration_since(now);
                return Err(ClaimError::ClientShareUsed { max: share, retry_after });
            }
            *created += 1;
        }
        counts.under_way += 1;
        drop(counts);
        Ok(Creation { creations: self, client, is_created: false })
    }
}

impl Creation<'_> {
    /// Notes that the code was created.
    pub(super) const fn done(&mut self) {
        self.is_created = true;
    }
}

impl Drop for Creation<'_> {
    fn drop(&mut self) {
        let mut counts = self.creations.counts();
        counts.under_way -= 1;
        if self.is_created {
            counts.stored += 1;
        } else if let Some(client) = self.client
            && let Some(created) = counts.by_client.get_mut(&client)
        {
            *created = created.saturating_sub(1);
            if *created == 0 {
                counts.by_client.remove(&client);
            }
        }
    }
}
