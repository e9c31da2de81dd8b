//! Counts the codes that a namespace has in the store, and those that each client created.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use raindrop_core::issue::ClaimError;
use tokio::time::Instant;

use super::settings::{RETRY_LATE, SegmentSettings};

/// The shortest time between two counts, since other nodes create codes, too.
const COUNT_AGAIN: Duration = Duration::from_secs(1);
/// Counting may take at most one part in this many of the time.
const COUNTING_PART: u32 = 20;
/// The time after which the counts of all clients start again.
const DAY: Duration = Duration::from_hours(24);

/// Codes that are created on demand.
#[derive(Debug, Default)]
pub(super) struct Creations(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Number of codes in the store: as last counted, plus those that were created since.
    stored: u64,
    /// Number of reservations in flight that may each create a code.
    under_way: u64,
    /// When the codes in the store must be counted again.
    count_at: Option<Instant>,
    /// How many codes each client has created since the counts last started.
    by_client: HashMap<u64, usize>,
    /// When these counts start again.
    day_ends: Option<Instant>,
    /// Codes in this node's table whose creation was refused.
    refused: Vec<String>,
}

/// A permission to create one code, counted as in use until it is dropped.
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

    /// Records that a code in the table was not created in the store.
    pub(super) fn refuse(&self, code: &str) {
        self.counts().refused.push(code.to_owned());
    }

    /// Returns the codes whose creation was refused since the last call.
    pub(super) fn take_refused(&self) -> Vec<String> {
        std::mem::take(&mut self.counts().refused)
    }

    /// Returns whether the codes in the store must be counted again.
    pub(super) fn must_count(&self, now: Instant) -> bool {
        self.counts().count_at.is_none_or(|count_at| count_at <= now)
    }

    /// Records the number of codes in the store, as the answer to a query sent at `began`.
    pub(super) fn counted(&self, stored: u64, began: Instant) {
        let mut counts = self.counts();
        counts.stored = stored;
        counts.count_at = Some(began + COUNT_AGAIN.max(COUNTING_PART * began.elapsed()));
    }

    /// Allows a client to create a code, or returns the reason why not.
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
    /// Records that the code was created.
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
