//! Reads the files of certificates.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_rustls::rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version::{TLS12, TLS13},
};
use x509_cert::{Certificate, der::Decode};

use crate::config::HttpTls;

/// The largest file that is read.
const LARGEST: u64 = 1024 * 1024;

/// Why certificates cannot be used. Never quotes a key.
#[derive(Debug, thiserror::Error)]
#[error("{key} ({}): {reason}", path.display())]
pub struct TlsError {
    key: &'static str,
    path: PathBuf,
    reason: String,
}

/// What the files hold.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Files {
    chain: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// Without the key.
impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

const CHAIN: &str = "http.tls.cert_file";
const KEY: &str = "http.tls.key_file";
const CLIENT_CA: &str = "http.tls.client_ca_file";

impl Files {
    pub(super) fn read(settings: &HttpTls) -> Result<Self, TlsError> {
        let client_ca = settings.client_ca_file.as_deref();
        Ok(Self {
            chain: read(CHAIN, &settings.cert_file)?,
            key: read(KEY, &settings.key_file)?,
            client_ca: client_ca.map(|path| read(CLIENT_CA, path)).transpose()?,
        })
    }

    /// The configuration of the listeners.
    pub(super) fn config(&self, settings: &HttpTls) -> Result<ServerConfig, TlsError> {
        let chain = certificates(CHAIN, &settings.cert_file, &self.chain)?;
        let of_key = |reason: String| error(KEY, &settings.key_file, reason);
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| {
            of_key("must hold one private key in PEM (PKCS #8, PKCS #1 or SEC1)".into())
        })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("ring knows both versions");
        let builder = match (&self.client_ca, &settings.client_ca_file) {
            (Some(pem), Some(path)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(CLIENT_CA, path, pem)? {
                    roots
                        .add(certificate)
                        .map_err(|reason| error(CLIENT_CA, path, reason.to_string()))?;
                }
                // A client without a certificate may have a token, or ask for /livez.
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|reason| error(CLIENT_CA, path, reason.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|reason| of_key(format!("does not fit {CHAIN}: {reason}")))?;
        if self.client_ca.is_some() {
            // A resumed session would skip the check of the client's certificate.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Whether both vouch for the same clients.
    pub(super) fn has_client_ca_of(&self, other: &Self) -> bool {
        self.client_ca == other.client_ca
    }

    /// When the first certificate of the chain expires, in Unix seconds.
    pub(super) fn expires_at(&self, settings: &HttpTls) -> Result<u64, TlsError> {
        let chain = certificates(CHAIN, &settings.cert_file, &self.chain)?;
        let read = Certificate::from_der(&chain[0]);
        let certificate =
            read.map_err(|reason| error(CHAIN, &settings.cert_file, reason.to_string()))?;
        Ok(certificate.tbs_certificate().validity().not_after.to_unix_duration().as_secs())
    }
}

fn error(key: &'static str, path: &Path, reason: String) -> TlsError {
    TlsError { key, path: path.to_owned(), reason }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let read = || {
        if fs::metadata(path)?.len() > LARGEST {
            let reason = format!("larger than {LARGEST} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        fs::read(path)
    };
    read().map_err(|reason| error(key, path, reason.to_string()))
}

fn certificates(
    key: &'static str,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(error(key, path, "must hold certificates in PEM".into())),
    }
}
