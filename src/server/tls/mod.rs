//! TLS on the listeners: certificates from files, replaced while the service runs.

pub(super) mod files;
mod handshakes;
mod reload;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};

use self::files::{Files, TlsError};
use self::handshakes::Handshakes;
pub(super) use self::reload::Follower;
use super::{auth::ClientCertificate, metrics::TlsMetrics};
use crate::config::HttpTls;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes that TLS holds of a connection's response before the kernel takes them.
const BUFFER: usize = 16 * 1024;

/// TLS on the listeners.
#[derive(Debug)]
pub(super) struct Tls {
    settings: HttpTls,
    present: ArcSwap<ServerConfig>,
    handshakes: Handshakes,
    metrics: TlsMetrics,
    /// What the last attempt to read the files found; `None` if they could not be read.
    last_read: Mutex<Option<Files>>,
}

impl Tls {
    /// Reads the files.
    pub(super) fn load(settings: HttpTls, metrics: TlsMetrics) -> Result<Self, TlsError> {
        let files = Files::read(&settings)?;
        let tls = Self {
            present: ArcSwap::new(Arc::new(files.config(&settings)?)),
            handshakes: Handshakes::default(),
            metrics,
            last_read: Mutex::new(None),
            settings,
        };
        tls.metrics.expires(files.expires_at(&tls.settings)?);
        *tls.last_read() = Some(files);
        Ok(tls)
    }

    fn last_read(&self) -> MutexGuard<'_, Option<Files>> {
        self.last_read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a connection of a stream; `None` if its client did not do its part.
    pub(super) async fn accept<S>(&self, stream: S) -> Option<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(self.present.load_full());
        let limited = |connection: &mut tokio_rustls::rustls::ServerConnection| {
            connection.set_buffer_limit(Some(BUFFER));
        };
        let handshake = timeout(HANDSHAKE, acceptor.accept_with(stream, limited));
        let outcome = match self.handshakes.run(handshake).await {
            Some(Ok(Ok(stream))) => {
                self.metrics.handshake("done");
                return Some(stream);
            }
            Some(Ok(Err(error))) => {
                tracing::debug!(%error, "TLS handshake failed");
                "failed"
            }
            Some(Err(_)) => "timed_out",
            None => "evicted",
        };
        self.metrics.handshake(outcome);
        None
    }
}

/// Returns the certificate that the client of a connection showed.
pub(super) fn client_certificate<S>(stream: &TlsStream<S>) -> Option<Arc<ClientCertificate>> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    Some(Arc::new(ClientCertificate::read(certificate)))
}
