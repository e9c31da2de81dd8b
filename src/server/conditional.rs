//! Responses that clients keep, and ask for again only if they have changed (RFC 9110).

use std::fmt::Write;

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};
use sha2::{Digest, Sha256};

use super::body::{self, ResponseBody};

/// Bytes of a hash that are enough to tell the versions of a document apart.
const TAG_BYTES: usize = 16;

/// A document that is the same for every request.
#[derive(Clone, Debug)]
pub(super) struct Document {
    content_type: &'static str,
    content: Bytes,
    /// A strong one.
    tag: HeaderValue,
}

impl Document {
    pub(super) fn new(content_type: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        let mut tag = String::from("\"");
        for byte in &Sha256::digest(&content)[..TAG_BYTES] {
            write!(tag, "{byte:02x}").expect("a string takes any text");
        }
        tag.push('"');
        let tag = HeaderValue::try_from(tag).expect("hexadecimal digits in quotes");
        Self { content_type, content, tag }
    }

    /// The document, or 304 to a client that has it. Every response shares its memory.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response<ResponseBody> {
        let has_it = headers.get_all(header::IF_NONE_MATCH).into_iter().any(|value| self.is(value));
        let content = if has_it { Bytes::new() } else { self.content.clone() };
        let mut response = body::response(self.content_type, content);
        if has_it {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(header::CONTENT_TYPE);
        }
        response.headers_mut().insert(header::ETAG, self.tag.clone());
        // To be kept, but asked about each time: another version may serve the next request.
        let each_time = HeaderValue::from_static("no-cache");
        response.headers_mut().insert(header::CACHE_CONTROL, each_time);
        response
    }

    /// Whether a list of tags has this one. Proxies that compress mark tags as weak.
    fn is(&self, tags: &HeaderValue) -> bool {
        let tags = tags.to_str().unwrap_or_default().split(',').map(str::trim);
        tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag))
            .any(|tag| tag == "*" || tag.as_bytes() == self.tag.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(document: &Document, tags: &[&str]) -> u16 {
        let tags = tags.iter().map(|tag| HeaderValue::try_from(*tag).expect("a value"));
        let headers = tags.map(|tag| (header::IF_NONE_MATCH, tag)).collect();
        document.answer(&headers).status().as_u16()
    }

    #[test]
    fn only_who_has_this_very_content_is_answered_304() {
        let document = Document::new("text/plain", "one");
        let tag = document.tag.to_str().expect("ASCII").to_owned();
        let other = Document::new("text/plain", "two");
        assert_eq!(status(&document, &[]), 200);
        assert_eq!(status(&other, &[&tag]), 200);
        assert_eq!(status(&document, &[tag.trim_matches('"')]), 200);
        for tags in
            [&[&*tag][..], &["*"], &[&format!("W/{tag}")], &["\"a\"", &format!("\"b\",{tag}")]]
        {
            assert_eq!(status(&document, tags), 304, "{tags:?}");
        }
        let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, document.tag.clone())]);
        let kept = document.answer(&headers);
        assert_eq!(kept.body().length(), Some(0));
        assert_eq!(kept.headers()[header::ETAG], document.tag);
        assert!(kept.headers().get(header::CONTENT_TYPE).is_none());
    }
}
