//! Limits the requests of each client per second, with a burst of one second (GCRA).

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The requests of this time may come at once, from a client that was idle.
const BURST: Duration = Duration::from_secs(1);

const SHARDS: usize = 16;

/// The most clients in a shard: 65 536 in all, of about 40 bytes each.
const CLIENTS: usize = 4096;

/// Limits the requests of each client.
#[derive(Debug)]
pub(in crate::server) struct RateLimiter {
    /// The time between two requests at the permitted rate.
    gap: Duration,
    /// For each client, the instant at which it may burst again in full. A client without an entry
    /// may at once.
    shards: [Mutex<HashMap<u64, Instant>>; SHARDS],
}

impl RateLimiter {
    pub(in crate::server) fn new(per_second: NonZeroU32) -> Self {
        let gap = Duration::from_secs(1) / per_second.get();
        Self { gap, shards: Default::default() }
    }

    /// Counts a request of the client with this key, which is a hash.
    ///
    /// # Errors
    ///
    /// The time to wait before the next attempt. A refused request does not count.
    pub(in crate::server) fn count(&self, client: u64, now: Instant) -> Result<(), Duration> {
        let shard = &self.shards[usize::from(client.to_le_bytes()[7]) % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let free_at = shard.get(&client).map_or(now, |free_at| now.max(*free_at)) + self.gap;
        if let Some(wait) = (free_at - now).checked_sub(BURST).filter(|wait| !wait.is_zero()) {
            return Err(wait);
        }
        if shard.len() >= CLIENTS && !shard.contains_key(&client) {
            shard.retain(|_, free_at| *free_at > now);
            // Full: forget every client. A limit per client does not stop an attacker with this
            // many addresses.
            if shard.len() > CLIENTS / 2 {
                shard.clear();
            }
        }
        shard.insert(client, free_at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(per_second: u32) -> RateLimiter {
        RateLimiter::new(NonZeroU32::new(per_second).expect("not zero"))
    }

    #[test]
    fn a_client_has_a_second_at_once_and_then_its_rate() {
        let (limiter, start) = (limiter(4), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        for _ in 0..4 {
            assert_eq!(limiter.count(7, at(0)), Ok(()));
        }
        assert_eq!(limiter.count(7, at(0)), Err(Duration::from_millis(250)));
        assert_eq!(limiter.count(7, at(100)), Err(Duration::from_millis(150)));
        assert_eq!(limiter.count(8, at(100)), Ok(()), "another client");
        assert_eq!(limiter.count(7, at(250)), Ok(()), "refused ones did not count");
        assert_eq!(limiter.count(7, at(250)), Err(Duration::from_millis(250)));
        let later = (0..9).filter(|_| limiter.count(7, at(60_000)).is_ok()).count();
        assert_eq!(later, 4, "an idle client saves no more than a second");
    }

    #[test]
    fn memory_is_bounded_and_idle_clients_go_first() {
        let (limiter, start) = (limiter(1), Instant::now());
        for client in 0..10 * CLIENTS as u64 {
            assert_eq!(limiter.count(client, start), Ok(()));
        }
        let clients = limiter.shards[0].lock().expect("unpoisoned").len();
        assert!(clients <= CLIENTS, "{clients}");
        let later = start + Duration::from_secs(2);
        assert_eq!(limiter.count(1, later), Ok(()));
        for client in 1..CLIENTS as u64 {
            let _ = limiter.count(1_000_000 + client, later);
        }
        assert!(limiter.count(1, later).is_err(), "it is still known");
    }
}
