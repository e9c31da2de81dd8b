//! Reloads the files at SIGHUP, and when they change.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};

use super::{
    Present, Tls,
    files::{Certificates, Files, TlsError},
};
use crate::{core::instant::format_unix_ms_or_year, process::hangup::Hangups};

/// How often the task reads the files. It polls because the files are small, and because Kubernetes
/// replaces them through a symbolic link.
const READ_EVERY: Duration = Duration::from_secs(10);

impl Tls {
    /// Follows the files; never returns. New connections use the new certificate, open ones keep
    /// theirs.
    pub(in crate::server) async fn follow(&self, hangups: &Hangups) {
        let mut ticks = interval(READ_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = hangups.next() => {}
            }
            self.reload_if_changed().await;
            self.log_faults();
        }
    }

    /// Reads the files, and uses them if they differ from those that were read last.
    async fn reload_if_changed(&self) {
        let settings = self.settings.clone();
        let known = self.last_read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let read_if_new = move || -> Result<_, TlsError> {
            let files = Arc::new(Files::read(&settings)?);
            let is_new = known.as_ref() != Some(&files);
            Ok(is_new.then(|| (Certificates::parse(Arc::clone(&files)), files)))
        };
        // A read that takes too long is abandoned: a later one may have returned newer files.
        let answer = self.reads.one(read_if_new).await;
        let read = answer.and_then(|read| read.map_err(|error| error.to_string()));
        let mut last = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        let (parsed, files) = match read {
            Ok(None) => return,
            Ok(Some(new)) => new,
            // Logged once, until the files can be read again.
            Err(reason) => {
                if last.take().is_some() {
                    self.failed(&reason);
                }
                return;
            }
        };
        match parsed {
            Ok(certificates) => {
                let expires_at = self.install(certificates);
                self.metrics.reloads.with_label_values(&["done"]).inc();
                self.metrics.reload_failing.set(0);
                tracing::info!(expires_at, "certificates reloaded");
            }
            Err(error) => self.failed(&error.to_string()),
        }
        *last = Some(files);
    }

    /// Uses these certificates from now on; returns when the certificate expires, for the log.
    fn install(&self, certificates: Certificates) -> String {
        let before = self.present.load();
        let authorities = before.authorities
            + u64::from(!certificates.trusts_no_fewer_clients(&before.certificates));
        let expires_at = certificates.validity.until;
        certificates.export(&self.metrics);
        self.present.store(Arc::new(Present { certificates, authorities }));
        format_unix_ms_or_year(expires_at.saturating_mul(1_000))
    }

    fn failed(&self, reason: &str) {
        self.metrics.reloads.with_label_values(&["failed"]).inc();
        self.metrics.reload_failing.set(1);
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
        let tls = Tls {
            metrics: Metrics::new().tls(&settings),
            settings,
            reads: Reads::default(),
            last_read: Mutex::new(Some(Arc::clone(&certificates.files))),
            present: ArcSwap::from_pointee(Present { certificates, authorities: 0 }),
            logged_faults: Mutex::default(),
        };
        let _ends = hang(&tls.reads).await;
        for _ in 0..2 {
            late(tls.reload_if_changed()).await;
        }
        assert_eq!(tls.metrics.reloads.with_label_values(&["failed"]).get(), 1);
    }
}
