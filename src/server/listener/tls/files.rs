//! Reads the files of certificates.

use std::{
    collections::BTreeSet,
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
use x509_cert::{
    Certificate,
    certificate::Rfc5280,
    crl::CertificateList,
    der::{Decode, Encode},
    time::Time,
};

use crate::{
    config::{HttpTls, small_file},
    core::instant::format_unix_ms_or_year,
    server::metrics::TlsMetrics,
};

/// The largest file of certificates.
const LARGEST: u64 = 1024 * 1024;
/// The largest file of revocation lists, which have a few dozen bytes for each certificate.
const LARGEST_LIST: u64 = 16 * 1024 * 1024;

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
    /// When the first certificate of the chain counts.
    pub(super) validity: Validity,
    revoked: Revoked,
    /// When each of the lists counts.
    lists: Vec<Validity>,
}

/// When a certificate or a list counts, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    from: i64,
    pub(super) until: i64,
}

impl Validity {
    fn new(from: &Time, until: Option<&Time>) -> Self {
        let seconds =
            |time: &Time| i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
        Self { from: seconds(from), until: until.map_or(i64::MAX, seconds) }
    }

    /// Why it does not count, if so.
    fn fault(self, now_ms: i64) -> Option<String> {
        let [from_ms, until_ms] = [self.from, self.until].map(|it| it.saturating_mul(1_000));
        if now_ms < from_ms {
            return Some(format!("counts from {} on", format_unix_ms_or_year(from_ms)));
        }
        let is_over = now_ms > until_ms;
        is_over.then(|| format!("expired at {}", format_unix_ms_or_year(until_ms)))
    }
}

/// What the authorities of clients revoked: each certificate by its issuer and number.
type Revoked = BTreeSet<(Vec<u8>, Vec<u8>)>;

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
        let optional = |key, path: &Option<PathBuf>, largest| {
            path.as_deref().map(|path| File::read(key, path, largest)).transpose()
        };
        let (ca, crl) = (&settings.client_ca_file, &settings.client_crl_file);
        let chain = File::read(CHAIN, &settings.cert_file, LARGEST)?;
        let certificate = Certificate::from_der(&chain.certificates()?[0]);
        let certificate = certificate.map_err(|reason| chain.error(reason))?;
        let validity = certificate.tbs_certificate().validity();
        let mut files = Self {
            validity: Validity::new(&validity.not_before, Some(&validity.not_after)),
            chain,
            key: File::read("http.tls.key_file", &settings.key_file, LARGEST)?,
            client_ca: optional("http.tls.client_ca_file", ca, LARGEST)?,
            client_crl: optional("http.tls.client_crl_file", crl, LARGEST_LIST)?,
            revoked: Revoked::new(),
            lists: Vec::new(),
        };
        if let Some(file) = &files.client_crl {
            for list in file.revocation_lists()? {
                let list = CertificateList::<Rfc5280>::from_der(&list)
                    .map_err(|reason| file.error(reason))?;
                let list = list.tbs_cert_list;
                files.lists.push(Validity::new(&list.this_update, list.next_update.as_ref()));
                let issuer = list.issuer.to_der().map_err(|reason| file.error(reason))?;
                let numbers = list.revoked_certificates.into_iter().flatten();
                let revoked =
                    numbers.map(|it| (issuer.clone(), it.serial_number.as_bytes().to_vec()));
                files.revoked.extend(revoked);
            }
        }
        Ok(files)
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

    /// Sets when the certificate and the first of the lists expire.
    pub(super) fn tell(&self, metrics: &TlsMetrics) {
        metrics.expires.set(self.validity.until);
        let first = self.lists.iter().map(|list| list.until).min();
        if let (Some(gauge), Some(first)) = (&metrics.lists_expire, first) {
            gauge.set(first);
        }
    }

    /// Whether these authorities still vouch for every client for which those vouched.
    pub(super) fn vouch_as(&self, others: &Self) -> bool {
        self.client_ca == others.client_ca && self.revoked.is_subset(&others.revoked)
    }

    /// What is wrong with the times of the certificate and the lists.
    pub(super) fn faults(&self, now_ms: i64) -> Vec<String> {
        let certificate = self.validity.fault(now_ms).map(|fault| {
            self.chain.error(format!("it {fault}: clients refuse this certificate")).to_string()
        });
        let lists = self.lists.iter().zip(&self.client_crl).filter_map(|(list, file)| {
            let fault = list.fault(now_ms)?;
            Some(
                file.error(format!("a list {fault}: clients with certificates are refused"))
                    .to_string(),
            )
        });
        certificate.into_iter().chain(lists).collect()
    }
}

impl File {
    fn read(key: &'static str, path: &Path, largest: u64) -> Result<Self, TlsError> {
        let mut file = Self { key, path: path.to_owned(), content: Vec::new() };
        file.content = small_file::read(path, largest).map_err(|reason| file.error(reason))?;
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
