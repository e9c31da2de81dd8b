//! Reads the files again at SIGHUP, and when they change.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};

use super::{
    Present, Tls,
    files::{Certificates, Files, TlsError},
};
use crate::{core::instant::format_unix_ms_or_year, process::hangup::Hangups};

/// How often the files are read. They are small, and Kubernetes replaces them by a link.
const READ_EVERY: Duration = Duration::from_secs(10);

impl Tls {
    /// Uses the files as they change. New connections get the new certificate; open ones go on.
    pub(in crate::server) async fn follow(self: &Arc<Self>, hangups: &Hangups) {
        let mut looks = interval(READ_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                () = hangups.next() => {}
            }
            self.look_in_time().await;
            self.tell_faults();
        }
    }

    /// A look that takes longer counts nevertheless, when it ends.
    async fn look_in_time(self: &Arc<Self>) {
        let tls = Arc::clone(self);
        if let Err(reason) = self.reads.one(move || tls.look()).await {
            self.unread(&reason);
        }
    }

    /// Reads the files, and uses them if they are others than those that were read last.
    fn look(&self) {
        let files = match Files::read(&self.settings) {
            Ok(files) => Arc::new(files),
            Err(error) => return self.unread(&error.to_string()),
        };
        if self.last_read().as_ref() == Some(&files) {
            return;
        }
        match self.install(&files) {
            Ok(expires_at) => {
                self.metrics.reloads.with_label_values(&["done"]).inc();
                tracing::info!(expires_at, "certificates reloaded");
            }
            Err(error) => self.failed(&error.to_string()),
        }
        *self.last_read() = Some(files);
    }

    /// Returns when the new certificate expires.
    fn install(&self, files: &Arc<Files>) -> Result<String, TlsError> {
        let certificates = Certificates::parse(Arc::clone(files))?;
        let before = self.present.load();
        let authorities =
            before.authorities + u64::from(!certificates.vouch_as(&before.certificates));
        let expires_at = certificates.validity.until;
        certificates.tell(&self.metrics);
        self.present.store(Arc::new(Present { certificates, authorities }));
        Ok(format_unix_ms_or_year(expires_at.saturating_mul(1_000)))
    }

    fn last_read(&self) -> MutexGuard<'_, Option<Arc<Files>>> {
        self.last_read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Said once, until the files can be read again.
    fn unread(&self, reason: &str) {
        if self.last_read().take().is_some() {
            self.failed(reason);
        }
    }

    fn failed(&self, reason: &str) {
        self.metrics.reloads.with_label_values(&["failed"]).inc();
        tracing::error!("certificate reload failed, keeping the previous certificates: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use arc_swap::ArcSwap;

    use super::*;
    use crate::{
        config::HttpTls,
        process::reading::{
            Reads,
            tests::{hang, late},
        },
        server::{Metrics, listener::tls::files::tests::certificates},
    };

    #[tokio::test(start_paused = true)]
    async fn files_that_never_answer_are_told_once() {
        let settings = HttpTls {
            cert_file: "none".into(),
            key_file: "none".into(),
            client_ca_file: None,
            client_crl_file: None,
        };
        let certificates = certificates();
        let tls = Arc::new(Tls {
            metrics: Metrics::new().tls(&settings),
            settings,
            reads: Reads::default(),
            last_read: Mutex::new(Some(Arc::clone(&certificates.files))),
            present: ArcSwap::from_pointee(Present { certificates, authorities: 0 }),
            said: Mutex::default(),
        });
        let _ends = hang(&tls.reads).await;
        for _ in 0..2 {
            late(tls.look_in_time()).await;
        }
        assert_eq!(tls.metrics.reloads.with_label_values(&["failed"]).get(), 1);
    }
}
