//! TLS on the listeners: certificates from files, replaced while the service runs.
//!
//! A changed certificate applies to new connections. A client certificate is authenticated at the
//! handshake, so each connection remembers the authorities that accepted it. Once these were
//! replaced, or have revoked any certificate, [`Tls::certificate`] returns `None`, and the
//! connection is closed after its next response. [`Tls::follow`] reads the files again at SIGHUP
//! and when they change; `files` parses them. What a client may do is up to `auth`. Tests:
//! tests/faults/tls.rs and tests/http/tokens.rs.

mod files;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Mutex as AsyncMutex,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

pub use self::files::TlsError;
use self::files::{Certificates, Files};
use crate::{
    auth::ClientCertificate,
    config::HttpTls,
    core::{
        clock::{Clock as _, SystemClock},
        instant::format_unix_ms_or_year,
    },
    process::file_watch::{FileWatch, Hangups},
    server::metrics::TlsMetrics,
};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes of a response that rustls buffers before the kernel takes them.
const BUFFER: usize = 16 * 1024;

/// TLS on the listeners.
#[derive(Debug)]
pub(in crate::server) struct Tls {
    settings: HttpTls,
    present: ArcSwap<Present>,
    metrics: TlsMetrics,
    /// Held by the task that follows the files.
    watch: AsyncMutex<FileWatch>,
    /// The faults of validity that were logged already.
    logged_faults: Mutex<Vec<String>>,
}

/// The certificates that new connections use.
#[derive(Debug)]
struct Present {
    certificates: Certificates,
    /// Counts the reloads after which a client certificate may no longer be accepted.
    authorities: u64,
}

/// The certificate that a client presented, and which authorities were loaded at the handshake:
/// [`Present::authorities`].
#[derive(Clone, Debug)]
pub(in crate::server) struct TlsClient {
    certificate: Arc<ClientCertificate>,
    authorities: u64,
}

impl Tls {
    /// Reads the files and begins to use them.
    pub(in crate::server) fn load(
        settings: HttpTls,
        metrics: TlsMetrics,
    ) -> Result<Self, TlsError> {
        let watch = FileWatch::new(settings.files()).into();
        let certificates = Certificates::parse(Files::read(&settings)?)?;
        if let Some(note) = settings.readable_key() {
            tracing::info!("{note}");
        }
        certificates.export(&metrics);
        let present = ArcSwap::from_pointee(Present { certificates, authorities: 0 });
        let tls = Self { settings, present, metrics, watch, logged_faults: Mutex::default() };
        tls.log_faults();
        Ok(tls)
    }

    /// Logs each certificate and list that is not valid at present, each fault once.
    fn log_faults(&self) {
        let faults = self.present.load().certificates.faults(SystemClock::default().now_ms());
        let mut logged_faults = self.logged_faults.lock().unwrap_or_else(PoisonError::into_inner);
        for fault in faults.iter().filter(|fault| !logged_faults.contains(fault)) {
            tracing::error!("{fault}");
        }
        *logged_faults = faults;
    }

    /// Does the handshake; returns `None` if it fails or takes too long.
    pub(in crate::server) async fn accept<S>(
        &self,
        stream: S,
    ) -> Option<(TlsStream<S>, Option<TlsClient>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Present { certificates, authorities } = &*self.present.load_full();
        let acceptor = TlsAcceptor::from(Arc::clone(&certificates.config));
        let limited = |connection: &mut tokio_rustls::rustls::ServerConnection| {
            connection.set_buffer_limit(Some(BUFFER));
        };
        let handshake = timeout(HANDSHAKE, acceptor.accept_with(stream, limited));
        let outcome = match handshake.await {
            Ok(Ok(stream)) => {
                self.metrics.handshakes.with_label_values(&["done"]).inc();
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let client = shown.map(|certificate| TlsClient {
                    certificate: Arc::new(ClientCertificate::read(certificate)),
                    authorities: *authorities,
                });
                return Some((stream, client));
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "TLS handshake failed");
                "failed"
            }
            Err(_) => "timed_out",
        };
        self.metrics.handshakes.with_label_values(&[outcome]).inc();
        None
    }

    /// Returns the certificate of a client; `None` if its authorities were replaced or revoked any
    /// certificate since the handshake.
    pub(in crate::server) fn certificate(
        &self,
        client: &TlsClient,
    ) -> Option<Arc<ClientCertificate>> {
        let is_present = self.present.load().authorities == client.authorities;
        is_present.then(|| Arc::clone(&client.certificate))
    }
}

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
