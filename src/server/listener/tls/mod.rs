//! TLS on the listeners: certificates from files, replaced while the service runs.
//!
//! A changed certificate applies to new connections. A client certificate is authenticated at the
//! handshake, so each connection remembers the authorities that accepted it. Once these were
//! replaced, or have revoked any certificate, [`Tls::certificate`] returns `None`, and the
//! connection is closed after its next response. `files` reads and parses, `reload` follows the
//! files. Tests: tests/faults/tls.rs and tests/http/tokens.rs.

mod files;
mod reload;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Mutex as AsyncMutex,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

pub use self::files::TlsError;
use self::files::{Certificates, Files};
use crate::{
    auth::ClientCertificate,
    config::HttpTls,
    core::clock::{Clock as _, SystemClock},
    process::file_watch::FileWatch,
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
