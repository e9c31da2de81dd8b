//! Reloads the tokens on SIGHUP, and when their file changes.

use std::sync::{Arc, atomic::Ordering};

use super::Auth;
use crate::{core::clock::Clock, process::hangup::Hangups};

impl Auth {
    /// Reloads the tokens on each signal and each change of their file. Never returns. If a read
    /// fails, the previous tokens stay in force.
    pub(crate) async fn follow(self: &Arc<Self>, hangups: &Hangups, clock: &dyn Clock) {
        let mut watch = self.watch.lock().await;
        loop {
            let reading = Arc::clone(self);
            let read =
                move || reading.read().map_err(|problems| problems.to_string().replace('\n', "; "));
            let read = watch.next(hangups, read).await;
            self.is_stale.store(read.is_err(), Ordering::Relaxed);
            match read {
                Ok(tokens) => {
                    self.tokens.store(tokens.into());
                    tracing::info!(tokens = self.count(), "tokens reloaded");
                    self.warn_of_expiry(clock.now_ms());
                }
                Err(reason) => {
                    tracing::error!("token reload failed, keeping the previous tokens: {reason}");
                }
            }
        }
    }
}
