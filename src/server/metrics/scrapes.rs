//! Bounds the cost of scrapes: encoding one takes as long as many responses with an ID.

use std::{
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
};

use axum::body::Bytes;
use tokio::time::Instant;

use crate::server::clients::RateLimiter;

/// The scrapes per second that get a fresh text.
const FRESH_PER_SECOND: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

/// The text of the last scrape, with which further ones are answered.
#[derive(Debug)]
pub(super) struct Scrapes {
    limiter: RateLimiter,
    last: Mutex<Option<Bytes>>,
}

impl Scrapes {
    pub(super) fn new() -> Self {
        Self { limiter: RateLimiter::new(FRESH_PER_SECOND), last: Mutex::default() }
    }

    /// Returns the text of `encode`; the last one if there are too many scrapes.
    pub(super) fn text(&self, encode: impl FnOnce() -> String) -> Bytes {
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if self.limiter.count(0, Instant::now()).is_err()
            && let Some(text) = &*last()
        {
            return text.clone();
        }
        let text = Bytes::from(encode());
        *last() = Some(text.clone());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_scrapes_gets_the_last_text() {
        let scrapes = Scrapes::new();
        let mut encoded = 0;
        let mut scrape = || {
            scrapes.text(|| {
                encoded += 1;
                encoded.to_string()
            })
        };
        let texts: Vec<Bytes> = (0..1_000).map(|_| scrape()).collect();
        assert_eq!(
            (&texts[0][..], &texts[99][..], &texts[999][..]),
            (&b"1"[..], &b"100"[..], &b"100"[..])
        );
        tokio::time::advance(std::time::Duration::from_millis(10)).await;
        assert_eq!([scrape(), scrape()], ["101", "101"]);
    }
}
