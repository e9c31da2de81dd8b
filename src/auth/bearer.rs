//! Reads the `Authorization` header.

use axum::http::{HeaderMap, header};

/// The length of the longest token in bytes. A longer one is refused unhashed, so that an attacker
/// cannot make the service hash long headers.
pub(super) const LONGEST: usize = 512;

/// The `Authorization` headers of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BearerHeader<'a> {
    /// The request has no `Authorization` header.
    Absent,
    /// The header has another scheme than `Bearer`.
    OtherScheme,
    /// There is more than one header, or the token is empty or too long.
    Malformed,
    /// A token, which may be unknown.
    Token(&'a [u8]),
}

pub(super) fn read(headers: &HeaderMap) -> BearerHeader<'_> {
    let mut values = headers.get_all(header::AUTHORIZATION).into_iter();
    let Some(value) = values.next() else { return BearerHeader::Absent };
    if values.next().is_some() {
        return BearerHeader::Malformed;
    }
    let value = value.as_bytes();
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, token) = value.split_at(end);
    let token = token.trim_ascii();
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        BearerHeader::OtherScheme
    } else if token.is_empty() || token.len() > LONGEST {
        BearerHeader::Malformed
    } else {
        BearerHeader::Token(token)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn one_header_of_the_right_scheme_carries_a_token() {
        let longest = "x".repeat(LONGEST);
        let bearer = |token: &str| format!("Bearer {token}").into_bytes();
        let cases: [(&[u8], BearerHeader<'_>); 12] = [
            (b"Bearer abc", BearerHeader::Token(b"abc")),
            (b"bearer abc", BearerHeader::Token(b"abc")),
            (b"BEARER   abc  ", BearerHeader::Token(b"abc")),
            (b"Bearer a b", BearerHeader::Token(b"a b")),
            (b"Bearer \xff\xfe", BearerHeader::Token(b"\xff\xfe")),
            (&bearer(&longest), BearerHeader::Token(longest.as_bytes())),
            (&bearer(&format!("{longest}x")), BearerHeader::Malformed),
            (b"Bearer", BearerHeader::Malformed),
            (b"Bearer   ", BearerHeader::Malformed),
            (b"Basic YTpi", BearerHeader::OtherScheme),
            (b"Bearerabc", BearerHeader::OtherScheme),
            (b"", BearerHeader::OtherScheme),
        ];
        for (value, carried) in cases {
            let value = HeaderValue::from_bytes(value).expect("a header");
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.clone())]);
            assert_eq!(read(&headers), carried, "{value:?}");
        }
        assert_eq!(read(&HeaderMap::new()), BearerHeader::Absent);
        let mut two = HeaderMap::new();
        for _ in 0..2 {
            two.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer abc"));
        }
        assert_eq!(read(&two), BearerHeader::Malformed);
    }
}
