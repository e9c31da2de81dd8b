//! Documents that clients store, and revalidate with `If-None-Match` (RFC 9110).

use std::io::Read as _;

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use flate2::{Compression, read::GzEncoder};
use sha2::{Digest, Sha256};

use super::content_negotiation::takes_gzip;
use crate::server::{
    extract::Client,
    response::{Problem, body},
};

/// A document that is the same for every request.
#[derive(Clone, Debug)]
pub(super) struct Document {
    content_type: &'static str,
    content: Bytes,
    gzipped: Bytes,
    /// The ETag: a weak one, because the plain and the compressed form have the same.
    tag: HeaderValue,
}

impl Document {
    pub(super) fn new(content_type: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        let hash = Sha256::digest(&content);
        // 128 bits are enough to tell the versions of a document apart.
        let half = u128::from_be_bytes(*hash.first_chunk().expect("32 bytes"));
        let tag = HeaderValue::try_from(format!("W/\"{half:032x}\""));
        let tag = tag.expect("hexadecimal digits in quotes");
        // Compressed once, because a compressor takes more memory than the document.
        let mut gzipped = Vec::new();
        let mut compressor = GzEncoder::new(&*content, Compression::best());
        compressor.read_to_end(&mut gzipped).expect("memory can be read");
        Self { content_type, content, gzipped: gzipped.into(), tag }
    }

    /// Returns whether the client has this version, by its `If-None-Match`.
    fn is_kept(&self, headers: &HeaderMap) -> bool {
        let lists = headers.get_all(header::IF_NONE_MATCH).into_iter();
        let tags = lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
        let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
        let own = opaque(self.tag.as_bytes());
        tags.map(<[u8]>::trim_ascii).any(|tag| tag == b"*" || opaque(tag) == own)
    }

    /// Returns the document, or 304 to a client that has it. All responses share the bytes, but TLS
    /// copies them for each connection, so their memory is reserved.
    pub(super) fn answer(&self, client: &Client, headers: &HeaderMap) -> Result<Response, Problem> {
        let has_it = self.is_kept(headers);
        let is_gzipped = !has_it && takes_gzip(headers);
        let content = if is_gzipped { &self.gzipped } else { &self.content };
        let content = if has_it { Bytes::new() } else { content.clone() };
        let reservation = client.reserve(content.len())?;
        let mut response = body::response(self.content_type, content, reservation);
        if has_it {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(header::CONTENT_TYPE);
        }
        if is_gzipped {
            let gzip = HeaderValue::from_static("gzip");
            response.headers_mut().insert(header::CONTENT_ENCODING, gzip);
        }
        response.headers_mut().insert(header::ETAG, self.tag.clone());
        let by_encoding = HeaderValue::from_static("accept-encoding");
        response.headers_mut().insert(header::VARY, by_encoding);
        // Clients may store it but must revalidate it: another version of the service may serve the
        // next request.
        let each_time = HeaderValue::from_static("no-cache");
        response.headers_mut().insert(header::CACHE_CONTROL, each_time);
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_with_the_present_content_is_answered_304() {
        let document = Document::new("text/plain", "one");
        let other = Document::new("text/plain", "two");
        let tag = document.tag.to_str().expect("ASCII").trim_start_matches("W/").to_owned();
        let is_kept = |document: &Document, tags: &[&str]| {
            let tags = tags.iter().map(|tag| HeaderValue::try_from(*tag).expect("a value"));
            document.is_kept(&tags.map(|tag| (header::IF_NONE_MATCH, tag)).collect())
        };
        assert!(!is_kept(&document, &[]));
        assert!(!is_kept(&other, &[&tag]));
        assert!(!is_kept(&document, &[tag.trim_matches('"')]));
        for tags in
            [&[&*tag][..], &["*"], &[&format!("W/{tag}")], &["\"a\"", &format!("\"b\",{tag}")]]
        {
            assert!(is_kept(&document, tags), "{tags:?}");
        }
    }
}
