//! Client certificates. The TLS handshake has verified them.

use x509_cert::{
    Certificate,
    der::Decode,
    ext::pkix::{SubjectAltName, name::GeneralName},
};

use super::tokens::TokenHash;

/// A name of a certificate, as an entry of the token file writes it: `dns:` or `uri:` and a subject
/// alternative name, or `sha256:` and the hash of the whole certificate in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CertificateName(String);

impl CertificateName {
    /// The form of a name in the file, for error messages.
    pub(super) const FORM: &str = "dns:, uri: or sha256: and a name of the certificate, such as \
        dns:client.example, uri:spiffe://example.org/shop or the 64 hexadecimal digits of its hash";

    /// Reads a name; `None` if no certificate can have it. Names with `*` are refused, because
    /// entries have no wildcards.
    pub(super) fn read(text: &str) -> Option<Self> {
        if text.starts_with("sha256:") {
            return TokenHash::read(text).map(|hash| Self(hash.to_string()));
        }
        let (kind, name) = text.split_once(':')?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'*';
        let is_valid = !name.is_empty() && name.bytes().all(is_plain);
        match kind {
            "dns" if is_valid => Some(Self::dns(name)),
            "uri" if is_valid && name.contains(':') => Some(Self::uri(name)),
            _ => None,
        }
    }

    fn dns(name: &str) -> Self {
        Self(format!("dns:{}", name.to_ascii_lowercase()))
    }

    fn uri(name: &str) -> Self {
        Self(format!("uri:{name}"))
    }
}

/// A client certificate that was verified in a TLS handshake.
///
/// A request without an `Authorization` header, but with an `Arc<ClientCertificate>` in its
/// extensions, may use what the entry of that certificate permits. A program that terminates TLS in
/// front of [`router`](crate::server::router()) in its own process inserts that extension after it
/// has verified the certificate. A client cannot insert it by a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    names: Vec<CertificateName>,
    /// When the certificate expires, in Unix milliseconds. The connection may last longer.
    expires_ms: Option<i64>,
}

impl ClientCertificate {
    /// Reads the names of a verified certificate in DER: its hash, and its subject alternative
    /// names that are DNS names or URIs. The subject's common name does not count.
    ///
    /// If the subject alternative names cannot be read, only the hash counts.
    pub fn read(der: &[u8]) -> Self {
        let mut names = vec![CertificateName(TokenHash::of(der).to_string())];
        let certificate = Certificate::from_der(der);
        match certificate.as_ref().map_err(|error| *error).and_then(alternative_names) {
            Ok(found) => names.extend(found),
            Err(error) => tracing::debug!(%error, "cannot read the names of a client certificate"),
        }
        let expires_ms = certificate.ok().map(|certificate| {
            let not_after = certificate.tbs_certificate().validity().not_after;
            i64::try_from(not_after.to_unix_duration().as_millis()).unwrap_or(i64::MAX)
        });
        Self { names, expires_ms }
    }

    /// Returns whether the certificate has expired since the handshake.
    pub(super) fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| expires_ms < now_ms)
    }

    pub(super) fn names(&self) -> &[CertificateName] {
        &self.names
    }
}

fn alternative_names(
    certificate: &Certificate,
) -> Result<Vec<CertificateName>, x509_cert::der::Error> {
    let names = certificate.tbs_certificate().get_extension::<SubjectAltName>()?;
    let names = names.map(|(_, SubjectAltName(names))| names).unwrap_or_default();
    let named = |name: &GeneralName| match name {
        GeneralName::DnsName(name) => Some(CertificateName::dns(name.as_str())),
        GeneralName::UniformResourceIdentifier(name) => Some(CertificateName::uri(name.as_str())),
        _ => None,
    };
    Ok(names.iter().filter_map(named).collect())
}
