//! Retries of operations whose objects others change at the same time.

use std::time::Duration;

use rand::{RngExt as _, rngs::StdRng};
use tokio::time::{Instant, sleep};

use crate::{Result, StoreError};

/// The longest first pause; each may be twice as long as the one before.
const FIRST: Duration = Duration::from_millis(5);
/// The longest pause.
const LONGEST: Duration = Duration::from_millis(200);

/// Pauses between the attempts of one operation, until its time-out.
pub(super) struct Retries {
    deadline: Instant,
    longest: Duration,
    random: StdRng,
}

impl Retries {
    pub(super) fn new(timeout: Duration, random: StdRng) -> Self {
        Self { deadline: Instant::now() + timeout, longest: FIRST, random }
    }

    /// Pauses for a random time, or fails when the time is used up.
    pub(super) async fn pause(&mut self) -> Result<()> {
        if Instant::now() >= self.deadline {
            let reason = "others keep changing the same Lease";
            return Err(StoreError::Unavailable(reason.into()));
        }
        sleep(self.random.random_range(Duration::ZERO..=self.longest)).await;
        self.longest = (self.longest * 2).min(LONGEST);
        Ok(())
    }
}
