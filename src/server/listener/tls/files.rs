//! Reads certificates, keys and revocation lists from files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
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

/// The largest file of certificates in bytes.
const LARGEST: u64 = 1024 * 1024;
/// The largest file of revocation lists in bytes; a revoked certificate takes a few dozen.
const LARGEST_LIST: u64 = 16 * 1024 * 1024;

/// Why certificates cannot be used. The text never quotes a private key.
#[derive(Debug, thiserror::Error)]
#[error("{key} ({}): {reason}", path.display())]
pub struct TlsError {
    key: &'static str,
    path: PathBuf,
    reason: String,
}

/// The files of a service's certificates.
#[derive(Debug)]
pub(super) struct Files {
    chain: File,
    key: File,
    client_ca: Option<File>,
    client_crl: Option<File>,
}

/// The parsed files.
#[derive(Debug)]
pub(super) struct Certificates {
    files: Files,
    /// The configuration of the listeners.
    pub(super) config: Arc<ServerConfig>,
    /// When the first certificate of the chain is valid.
    pub(super) validity: Validity,
    revoked: Revoked,
    /// When each revocation list is valid.
    lists: Vec<Validity>,
}

/// When a certificate or a revocation list is valid, in Unix seconds.
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

    /// Returns why the certificate is not valid at this time, or `None` if it is.
    fn fault(self, now_ms: i64) -> Option<String> {
        let [from_ms, until_ms] = [self.from, self.until].map(|it| it.saturating_mul(1_000));
        if now_ms < from_ms {
            return Some(format!("counts from {} on", format_unix_ms_or_year(from_ms)));
        }
        let is_over = now_ms > until_ms;
        is_over.then(|| format!("expired at {}", format_unix_ms_or_year(until_ms)))
    }
}

/// The serial numbers that the clients' authorities revoked, by the DER of their issuer.
type Revoked = BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>;

/// The content of a file, and the configuration key that names it.
#[derive(PartialEq, Eq)]
struct File {
    key: &'static str,
    path: PathBuf,
    content: Vec<u8>,
}

/// Leaves out the content, which may be a private key.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.path).finish_non_exhaustive()
    }
}

const CHAIN: &str = "http.tls.cert_file";

impl Files {
    pub(super) fn read(settings: &HttpTls) -> Result<Self, TlsError> {
        // These decide which clients are authenticated, so their files must not be writable for
        // others.
        let optional = |key, path: &Option<PathBuf>, largest| {
            let read = |path| File::read(key, path, |path| small_file::read_trusted(path, largest));
            path.as_deref().map(read).transpose()
        };
        let own = |key, path| File::read(key, path, |path| small_file::read(path, LARGEST));
        let (ca, crl) = (&settings.client_ca_file, &settings.client_crl_file);
        Ok(Self {
            chain: own(CHAIN, &settings.cert_file)?,
            key: own("http.tls.key_file", &settings.key_file)?,
            client_ca: optional("http.tls.client_ca_file", ca, LARGEST)?,
            client_crl: optional("http.tls.client_crl_file", crl, LARGEST_LIST)?,
        })
    }

    fn config(&self) -> Result<ServerConfig, TlsError> {
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
                // A client without a certificate may have a token, or probe /livez.
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
}

impl Certificates {
    /// Parses the files. Long revocation lists take a while, so this does not belong on an async
    /// thread.
    pub(super) fn parse(files: Files) -> Result<Self, TlsError> {
        let certificate = Certificate::from_der(&files.chain.certificates()?[0]);
        let certificate = certificate.map_err(|reason| files.chain.error(reason))?;
        let times = certificate.tbs_certificate().validity();
        let validity = Validity::new(&times.not_before, Some(&times.not_after));
        let (mut revoked, mut lists) = (Revoked::new(), Vec::new());
        if let Some(file) = &files.client_crl {
            for der in file.revocation_lists()? {
                let list = CertificateList::<Rfc5280>::from_der(&der)
                    .map_err(|reason| file.error(reason))?
                    .tbs_cert_list;
                lists.push(Validity::new(&list.this_update, list.next_update.as_ref()));
                let issuer = list.issuer.to_der().map_err(|reason| file.error(reason))?;
                let certificates = list.revoked_certificates.into_iter().flatten();
                let numbers = certificates.map(|it| it.serial_number.as_bytes().to_vec());
                revoked.entry(issuer).or_default().extend(numbers);
            }
        }
        let config = Arc::new(files.config()?);
        Ok(Self { files, config, validity, revoked, lists })
    }

    /// Exports when the certificate expires, and when the first of the lists does.
    pub(super) fn export(&self, metrics: &TlsMetrics) {
        metrics.expires.set(self.validity.until);
        let first = self.lists.iter().map(|list| list.until).min();
        if let (Some(gauge), Some(first)) = (&metrics.lists_expire, first) {
            gauge.set(first);
        }
    }

    /// Returns whether these files accept every client certificate that `others` accepted: the
    /// authorities are the same, and none was revoked since.
    pub(super) fn trusts_no_fewer_clients(&self, others: &Self) -> bool {
        self.files.client_ca == others.files.client_ca
            && self.revoked.iter().all(|(issuer, numbers)| {
                let before = others.revoked.get(issuer);
                numbers.iter().all(|number| before.is_some_and(|before| before.contains(number)))
            })
    }

    /// Returns the certificate and the lists that have expired or are not valid yet, as texts for
    /// the log.
    pub(super) fn faults(&self, now_ms: i64) -> Vec<String> {
        let certificate = self.validity.fault(now_ms).map(|fault| {
            let reason = format!("it {fault}: clients refuse this certificate");
            self.files.chain.error(reason).to_string()
        });
        let lists = self.lists.iter().filter_map(|list| {
            let (fault, file) = (list.fault(now_ms)?, self.files.client_crl.as_ref()?);
            Some(
                file.error(format!("a list {fault}: clients with certificates are refused"))
                    .to_string(),
            )
        });
        certificate.into_iter().chain(lists).collect()
    }
}

impl File {
    fn read(
        key: &'static str,
        path: &Path,
        read: impl Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, TlsError> {
        let mut file = Self { key, path: path.to_owned(), content: Vec::new() };
        file.content = read(path).map_err(|reason| file.error(reason))?;
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

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::server::ResolvesServerCertUsingSni;

    use super::*;

    /// Returns certificates whose files are all empty.
    fn certificates() -> Certificates {
        let file = |key: &'static str| File { key, path: key.into(), content: Vec::new() };
        let files = Files {
            chain: file(CHAIN),
            key: file("http.tls.key_file"),
            client_ca: None,
            client_crl: Some(file("http.tls.client_crl_file")),
        };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .expect("ring knows it")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        Certificates {
            files,
            config: Arc::new(config),
            validity: Validity { from: 0, until: i64::MAX },
            revoked: Revoked::new(),
            lists: Vec::new(),
        }
    }

    #[test]
    fn authorities_trust_no_fewer_clients_until_they_revoke_another_certificate() {
        let revoking = |issuer: &str, numbers: &str| {
            let numbers: BTreeSet<Vec<u8>> = numbers.bytes().map(|number| vec![number]).collect();
            let revoked = Revoked::from([(issuer.as_bytes().to_vec(), numbers)]);
            Certificates { revoked, ..certificates() }
        };
        let before = revoking("a", "12");
        for (issuer, numbers, vouch) in [
            ("a", "12", true),
            ("a", "2", true),
            ("b", "", true),
            ("a", "123", false),
            ("b", "1", false),
        ] {
            assert_eq!(
                revoking(issuer, numbers).trusts_no_fewer_clients(&before),
                vouch,
                "{issuer} {numbers}"
            );
        }
    }

    #[test]
    fn every_list_that_expired_is_told() {
        let lists = [1, 2].map(|until| Validity { from: 0, until }).to_vec();
        let told = Certificates { lists, ..certificates() }.faults(3_000);
        assert_eq!(told.len(), 2, "{told:?}");
    }
}
