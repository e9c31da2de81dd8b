//! Reloads the files at SIGHUP, and when they change.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{
    Present, Tls,
    files::{Certificates, Files, TlsError},
};
use crate::{core::instant::format_unix_ms_or_year, process::hangup::Hangups};

/// How often the certificates in use are checked for the end of their validity.
const CHECK_EVERY: Duration = Duration::from_secs(10);

impl Tls {
    /// Follows the files; never returns. New connections use the new certificate, open ones keep
    /// theirs. If a read fails, the previous certificates stay in force.
    pub(in crate::server) async fn follow(&self, hangups: &Hangups) {
        tokio::join!(self.follow_files(hangups), self.follow_validity());
    }

    async fn follow_files(&self, hangups: &Hangups) {
        let mut watch = self.watch.lock().await;
        loop {
            let settings = self.settings.clone();
            let read = move || -> Result<Certificates, String> {
                let read = Files::read(&settings).and_then(Certificates::parse);
                read.map_err(|error: TlsError| error.to_string())
            };
            let read = watch.next(hangups, read).await;
            self.metrics.reload_failing.set(read.is_err().into());
            match read {
                Ok(certificates) => {
                    let expires_at = self.install(certificates);
                    self.metrics.reloads.with_label_values(&["done"]).inc();
                    tracing::info!(expires_at, "certificates reloaded");
                    self.log_faults();
                }
                Err(reason) => {
                    self.metrics.reloads.with_label_values(&["failed"]).inc();
                    tracing::error!(
                        "certificate reload failed, keeping the previous certificates: {reason}"
                    );
                }
            }
        }
    }

    async fn follow_validity(&self) {
        loop {
            sleep(CHECK_EVERY).await;
            self.log_faults();
        }
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
}
