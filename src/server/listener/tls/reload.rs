//! Reads the files again at SIGHUP, and when they change.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};

use super::{
    Present, Tls,
    files::{Files, TlsError},
};
use crate::{core::instant::format_unix_ms_or_year, process::hangup::Hangups};

/// How often the files are read. They are small, and Kubernetes replaces them by a link.
const READ_EVERY: Duration = Duration::from_secs(10);

/// How long reading may take: the files may be on a network.
const PATIENCE: Duration = Duration::from_secs(5);

impl Tls {
    /// Uses the files as they change. New connections get the new certificate; open ones go on.
    pub(in crate::server) async fn follow(&self, hangups: &Hangups) {
        let mut looks = interval(READ_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                () = hangups.next() => {}
            }
            self.look().await;
            self.tell_faults();
        }
    }

    async fn look(&self) {
        let settings = self.settings.clone();
        let reading = tokio::task::spawn_blocking(move || Files::read(&settings));
        let read = match tokio::time::timeout(PATIENCE, reading).await {
            Ok(Ok(read)) => read.map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("not read within {PATIENCE:?}")),
        };
        let mut last = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        let files = match read {
            Ok(files) if Some(&files) == last.as_deref() => return,
            Ok(files) => Arc::new(files),
            // Said once, until the files can be read again.
            Err(reason) => {
                if last.take().is_some() {
                    self.failed(&reason);
                }
                return;
            }
        };
        match self.install(&files) {
            Ok(expires_at) => {
                self.metrics.reloads.with_label_values(&["done"]).inc();
                tracing::info!(expires_at, "certificates reloaded");
            }
            Err(error) => self.failed(&error.to_string()),
        }
        *last = Some(files);
    }

    /// Returns when the new certificate expires.
    fn install(&self, files: &Arc<Files>) -> Result<String, TlsError> {
        let config = Arc::new(files.config()?);
        let before = self.present.load();
        let authorities = before.authorities + u64::from(!files.vouch_as(&before.files));
        let expires_at = files.validity.until;
        let present = Present { config, authorities, files: Arc::clone(files) };
        self.present.store(Arc::new(present));
        files.tell(&self.metrics);
        Ok(format_unix_ms_or_year(expires_at.saturating_mul(1_000)))
    }

    fn failed(&self, reason: &str) {
        self.metrics.reloads.with_label_values(&["failed"]).inc();
        tracing::error!("certificate reload failed, keeping the previous certificates: {reason}");
    }
}
