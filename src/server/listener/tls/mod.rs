//! TLS on the listeners: certificates from files, replaced while the service runs.

mod files;
mod reload;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

pub use self::files::TlsError;
use self::files::{Certificates, Files};
use crate::{
    auth::ClientCertificate,
    config::HttpTls,
    core::clock::{Clock as _, SystemClock},
    process::reading::Reads,
    server::metrics::TlsMetrics,
};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes that TLS holds of a connection's response before the kernel takes them.
const BUFFER: usize = 16 * 1024;

/// TLS on the listeners.
#[derive(Debug)]
pub(in crate::server) struct Tls {
    settings: HttpTls,
    present: ArcSwap<Present>,
    metrics: TlsMetrics,
    reads: Reads,
    /// What the last attempt to read the files found; `None` if they could not be read.
    last_read: Mutex<Option<Arc<Files>>>,
    /// What the log says is wrong with the times of the files.
    said: Mutex<Vec<String>>,
}

/// What new connections use.
#[derive(Debug)]
struct Present {
    certificates: Certificates,
    /// Counts how often clients may have lost those who vouched for them.
    authorities: u64,
}

/// The certificate that a client showed, and the authorities that vouched for it.
#[derive(Clone, Debug)]
pub(in crate::server) struct TlsClient {
    certificate: Arc<ClientCertificate>,
    authorities: u64,
}

impl Tls {
    /// Reads the files.
    pub(in crate::server) fn load(
        settings: HttpTls,
        metrics: TlsMetrics,
    ) -> Result<Self, TlsError> {
        let certificates = Certificates::parse(Files::read(&settings)?.into())?;
        if let Some(note) = settings.readable_key() {
            tracing::info!("{note}");
        }
        certificates.tell(&metrics);
        let last_read = Mutex::new(Some(Arc::clone(&certificates.files)));
        let present = ArcSwap::from_pointee(Present { certificates, authorities: 0 });
        let (reads, said) = (Reads::default(), Mutex::default());
        let tls = Self { settings, present, metrics, reads, last_read, said };
        tls.tell_faults();
        Ok(tls)
    }

    /// Logs what is wrong with the times of the certificate and the lists, each once.
    fn tell_faults(&self) {
        let faults = self.present.load().certificates.faults(SystemClock::default().now_ms());
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        for fault in faults.iter().filter(|fault| !said.contains(fault)) {
            tracing::error!("{fault}");
        }
        *said = faults;
    }

    /// Makes a connection of a stream; `None` if its client did not do its part.
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

    /// The certificate of a client; `None` if its authorities were replaced or revoked any since.
    pub(in crate::server) fn certificate(
        &self,
        client: &TlsClient,
    ) -> Option<Arc<ClientCertificate>> {
        let is_present = self.present.load().authorities == client.authorities;
        is_present.then(|| Arc::clone(&client.certificate))
    }
}
