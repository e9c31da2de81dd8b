//! Reads the files of certificates.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_rustls::rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version::{TLS12, TLS13},
};
use x509_cert::{Certificate, der::Decode, time::Time};

use crate::{
    config::{HttpTls, small_file},
    core::instant::format_unix_ms_or_year,
};

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
    client_crl: Option<File>,
}

/// When a certificate counts, in Unix seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validity {
    pub(super) from: i64,
    pub(super) until: i64,
}

impl Validity {
    /// Why clients refuse the certificate, if they do.
    pub(super) fn refusal(self, now_ms: i64) -> Option<String> {
        let (from_ms, until_ms) =
            (self.from.saturating_mul(1_000), self.until.saturating_mul(1_000));
        if now_ms < from_ms {
            return Some(format!("counts from {} on", format_unix_ms_or_year(from_ms)));
        }
        let is_over = now_ms > until_ms;
        is_over.then(|| format!("expired at {}", format_unix_ms_or_year(until_ms)))
    }
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
        let optional = |key, path: &Option<PathBuf>| {
            path.as_deref().map(|path| File::read(key, path)).transpose()
        };
        Ok(Self {
            chain: File::read(CHAIN, &settings.cert_file)?,
            key: File::read("http.tls.key_file", &settings.key_file)?,
            client_ca: optional("http.tls.client_ca_file", &settings.client_ca_file)?,
            client_crl: optional("http.tls.client_crl_file", &settings.client_crl_file)?,
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
                let lists = self.client_crl.as_ref().map(File::revocation_lists).transpose()?;
                // A client without a certificate may have a token, or ask for /livez.
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .allow_unauthenticated()
                    .with_crls(lists.unwrap_or_default())
                    .enforce_revocation_expiration()
                    .build()
                    .map_err(|reason| self.client_crl.as_ref().unwrap_or(file).error(reason))?;
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
    pub(super) fn has_clients_of(&self, other: &Self) -> bool {
        (&self.client_ca, &self.client_crl) == (&other.client_ca, &other.client_crl)
    }

    /// When the first certificate of the chain counts.
    pub(super) fn validity(&self) -> Result<Validity, TlsError> {
        let read = Certificate::from_der(&self.chain.certificates()?[0]);
        let certificate = read.map_err(|reason| self.chain.error(reason))?;
        let validity = certificate.tbs_certificate().validity();
        let seconds =
            |time: &Time| i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
        Ok(Validity { from: seconds(&validity.not_before), until: seconds(&validity.not_after) })
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

    fn revocation_lists(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
        let read: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_slice_iter(&self.content).collect();
        match read {
            Ok(lists) if !lists.is_empty() => Ok(lists),
            _ => Err(self.error("must hold certificate revocation lists in PEM")),
        }
    }

    fn error(&self, reason: impl ToString) -> TlsError {
        TlsError { key: self.key, path: self.path.clone(), reason: reason.to_string() }
    }
}
