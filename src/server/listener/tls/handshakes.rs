//! Bounds the handshakes that are under way at a time.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tokio::sync::oneshot::{self, Sender};

/// More than honest clients need, who take milliseconds.
const MOST: usize = 1024;

/// The handshakes under way, the oldest first. Beyond the limit the oldest gives way, so that
/// clients that never finish keep nobody out.
#[derive(Debug, Default)]
pub(super) struct Handshakes(Mutex<VecDeque<Sender<()>>>);

impl Handshakes {
    /// Runs a handshake; `None` if it had to give way.
    pub(super) async fn run<T>(&self, handshake: impl Future<Output = T>) -> Option<T> {
        let (eviction, evicted) = oneshot::channel();
        self.add(eviction);
        tokio::select! {
            biased;
            done = handshake => Some(done),
            _ = evicted => None,
        }
    }

    fn add(&self, eviction: Sender<()>) {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if under_way.len() >= MOST {
            under_way.retain(|eviction| !eviction.is_closed());
        }
        if under_way.len() >= MOST {
            under_way.pop_front();
        }
        under_way.push_back(eviction);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc};

    use super::*;

    #[tokio::test]
    async fn the_oldest_handshake_gives_way_when_there_are_too_many() {
        let handshakes = Arc::new(Handshakes::default());
        assert_eq!(handshakes.run(async { 1 }).await, Some(1));
        let stalled = |_| {
            let handshakes = Arc::clone(&handshakes);
            tokio::spawn(async move { handshakes.run(pending::<()>()).await })
        };
        let mut all: Vec<_> = (0..MOST).map(stalled).collect();
        while handshakes.0.lock().expect("no panic").len() < MOST {
            tokio::task::yield_now().await;
        }
        assert!(all.iter().all(|handshake| !handshake.is_finished()));
        assert_eq!(handshakes.run(async { 2 }).await, Some(2));
        assert_eq!(all.remove(0).await.expect("no panic"), None);
        assert!(all.iter().all(|handshake| !handshake.is_finished()));
    }
}
