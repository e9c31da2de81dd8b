//! Reads the files of certificates.

use std::{
    fmt,
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

use crate::config::{HttpTls, small_file};

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

/// The files of a service's certificates.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Files {
    chain: File,
    key: File,
    client_ca: Option<File>,
}

/// A file, and the key that names it.
#[derive(PartialEq, Eq)]
struct File {
    key: &'static str,
    path: PathBuf,
    content: Vec<u8>,
}

/// Without its content.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.path).finish_non_exhaustive()
    }
}

const CHAIN: &str = "http.tls.cert_file";

impl Files {
    pub(super) fn read(settings: &HttpTls) -> Result<Self, TlsError> {
        let client_ca = settings.client_ca_file.as_deref();
        Ok(Self {
            chain: File::read(CHAIN, &settings.cert_file)?,
            key: File::read("http.tls.key_file", &settings.key_file)?,
            client_ca: client_ca
                .map(|path| File::read("http.tls.client_ca_file", path))
                .transpose()?,
        })
    }

    /// The configuration of the listeners.
    pub(super) fn config(&self) -> Result<ServerConfig, TlsError> {
        let chain = self.chain.certificates()?;
        let key = PrivateKeyDer::from_pem_slice(&self.key.content).map_err(|_| {
            self.key.error("must hold one private key in PEM (PKCS #8, PKCS #1 or SEC1)")
        })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("ring knows both versions");
        let builder = match &self.client_ca {
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in file.certificates()? {
                    roots.add(certificate).map_err(|reason| file.error(reason))?;
                }
                // A client without a certificate may have a token, or ask for /livez.
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|reason| file.error(reason))?;
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|reason| self.key.error(format!("does not fit {CHAIN}: {reason}")))?;
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
    pub(super) fn expires_at(&self) -> Result<i64, TlsError> {
        let read = Certificate::from_der(&self.chain.certificates()?[0]);
        let certificate = read.map_err(|reason| self.chain.error(reason))?;
        let expires = certificate.tbs_certificate().validity().not_after.to_unix_duration();
        Ok(i64::try_from(expires.as_secs()).unwrap_or(i64::MAX))
    }
}

impl File {
    fn read(key: &'static str, path: &Path) -> Result<Self, TlsError> {
        let mut file = Self { key, path: path.to_owned(), content: Vec::new() };
        file.content = small_file::read(path, LARGEST).map_err(|reason| file.error(reason))?;
        Ok(file)
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.content).collect();
        match read {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            _ => Err(self.error("must hold certificates in PEM")),
        }
    }

    fn error(&self, reason: impl ToString) -> TlsError {
        TlsError { key: self.key, path: self.path.clone(), reason: reason.to_string() }
    }
}
