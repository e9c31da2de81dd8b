//! Reads the files again at SIGHUP, and when they change.

use std::{io, sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};

use super::{
    Present, Tls,
    files::{Files, TlsError},
};
use crate::process::hangup::Hangups;

/// How often the files are read. They are small, and Kubernetes replaces them by a link.
const READ_EVERY: Duration = Duration::from_secs(10);

/// How long reading may take: the files may be on a network.
const PATIENCE: Duration = Duration::from_secs(5);

/// Follows the files of a service's certificates.
#[derive(Debug)]
pub(in crate::server) struct Follower {
    tls: Arc<Tls>,
    hangups: Hangups,
}

impl Follower {
    pub(in crate::server) fn new(tls: Arc<Tls>) -> io::Result<Self> {
        Ok(Self { tls, hangups: Hangups::listen()? })
    }

    /// Uses the files as they change. New connections get the new certificate; open ones go on.
    pub(in crate::server) async fn follow(&self) {
        let mut looks = interval(READ_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                () = self.hangups.next() => {}
            }
            self.look().await;
        }
    }

    async fn look(&self) {
        let settings = self.tls.settings.clone();
        let reading = tokio::task::spawn_blocking(move || Files::read(&settings));
        let read = match tokio::time::timeout(PATIENCE, reading).await {
            Ok(Ok(read)) => read.map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("not read within {PATIENCE:?}")),
        };
        let mut last = self.tls.last_read();
        let files = match read {
            Ok(files) if Some(&files) == last.as_ref() => return,
            Ok(files) => files,
            // Said once, until the files can be read again.
            Err(reason) => {
                if last.take().is_some() {
                    self.failed(&reason);
                }
                return;
            }
        };
        match self.install(&files, last.as_ref()) {
            Ok(expires_at) => {
                self.tls.metrics.reload("done");
                tracing::info!(expires_at, "certificates reloaded");
            }
            Err(error) => self.failed(&error.to_string()),
        }
        *last = Some(files);
    }

    fn install(&self, files: &Files, last: Option<&Files>) -> Result<String, TlsError> {
        let Tls { settings, present, metrics, .. } = &*self.tls;
        let config = Arc::new(files.config(settings)?);
        let expires_at = files.expires_at(settings)?;
        let has_same_clients = last.is_some_and(|last| files.has_client_ca_of(last));
        let authorities = present.load().authorities + u64::from(!has_same_clients);
        present.store(Arc::new(Present { config, authorities }));
        metrics.expires(expires_at);
        Ok(expires(expires_at))
    }

    fn failed(&self, reason: &str) {
        self.tls.metrics.reload("failed");
        tracing::error!("certificate reload failed, keeping the previous certificates: {reason}");
    }
}

fn expires(unix_seconds: u64) -> String {
    let ms = i64::try_from(unix_seconds).unwrap_or(i64::MAX).saturating_mul(1_000);
    crate::core::instant::format_unix_ms_or_year(ms)
}
