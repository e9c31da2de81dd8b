//! Chooses the form of a response that the client prefers (RFC 9110, section 12.5).

use axum::http::{HeaderMap, HeaderName, header};

/// Returns whether the client prefers plain text to JSON (RFC 9110, section 12.5.1). JSON wins a
/// tie, since many clients list both, unless only text is named and JSON matches just a range such
/// as `*/*`.
pub(super) fn prefers_text(headers: &HeaderMap) -> bool {
    // Fast path: most clients send `*/*` or nothing.
    if headers.get_all(header::ACCEPT).iter().all(|value| value == "*/*") {
        return false;
    }
    let quality_of = |range: &str| quality(headers, header::ACCEPT, range);
    let [named_text, named_json] = ["text/plain", "application/json"].map(quality_of);
    let in_range = |range| quality_of(range).or_else(|| quality_of("*/*")).unwrap_or(0.0);
    let text = named_text.unwrap_or_else(|| in_range("text/*"));
    let json = named_json.unwrap_or_else(|| in_range("application/*"));
    text > json || text == json && text > 0.0 && named_text.is_some() && named_json.is_none()
}

/// Returns whether the client accepts gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let quality_of = |coding| quality(headers, header::ACCEPT_ENCODING, coding);
    quality_of("gzip").or_else(|| quality_of("*")).is_some_and(|quality| quality > 0.0)
}

/// Returns the weight of `name` in a header, from 0 to 1; `None` if it is not listed.
fn quality(headers: &HeaderMap, header: HeaderName, name: &str) -> Option<f32> {
    headers
        .get_all(header)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|given| quality_in(given, name))
        .reduce(f32::max)
}

fn quality_in(given: &str, name: &str) -> Option<f32> {
    let mut parts = given.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(name) {
        return None;
    }
    let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    weight.map_or(Some(1.0), read_weight)
}

/// Parses a weight: 0 to 1 with at most three decimals (RFC 9110, section 12.4.2). An element with
/// an invalid weight counts as absent.
fn read_weight(text: &str) -> Option<f32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_fraction = fraction.len() <= 3 && fraction.bytes().all(|digit| digit.is_ascii_digit());
    let weight = text.parse().ok().filter(|weight| *weight <= 1.0);
    weight.filter(|_| matches!(whole, "0" | "1") && is_fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_wins_unless_text_is_preferred() {
        let prefers = |accept: &str| {
            let value = accept.parse().expect("a header");
            prefers_text(&HeaderMap::from_iter([(header::ACCEPT, value)]))
        };
        assert!(!prefers_text(&HeaderMap::new()));
        for accept in [
            "text/plain",
            "TEXT/Plain; charset=utf-8",
            "text/plain, */*",
            "text/plain;q=0.9, application/json;q=0.8",
            "text/plain;q=0.2, */*;q=0.2",
            "text/plain;q=0.5, application/json;q=0",
            "text/*",
            "text/*, application/json;q=0.1",
            "application/json;q=0, */*",
            "text/plain;q=1.000, application/json;q=0.999",
            "application/json;q=inf, text/plain",
            "application/json;q=9, text/plain;q=0.1",
        ] {
            assert!(prefers(accept), "{accept}");
        }
        for accept in [
            "*/*",
            "text/html, */*;q=0.8",
            "application/json, text/plain, */*",
            "text/plain;q=0",
            "text/plain;q=0.1, */*",
            "text/plain;q=0.4, application/*;q=0.5, */*;q=0.1",
            "text/plain;q=0, application/json;q=0",
            "text/plain;q=x",
            "text/plain;q=inf, application/json",
            "text/plain;q=9",
            "text/plain;q=1e9, application/json;q=0.1",
            "text/plain;q=1.1",
            "text/plain;q=1.0000",
            "text/plain;q=0.9999, application/json;q=0.1",
            "text/plain;q=+1",
            "text/plain;q=.5, application/json;q=0.1",
            "text/plain;q=NaN",
            "text/plain;q=01",
            "text/plain;q=",
            "text/*, */*",
            "application/json, text/*",
        ] {
            assert!(!prefers(accept), "{accept}");
        }
    }

    #[test]
    fn client_that_accepts_gzip_gets_gzip() {
        let takes = |codings: &str| {
            let value = codings.parse().expect("a header");
            takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]))
        };
        assert!(!takes_gzip(&HeaderMap::new()));
        for codings in ["gzip", "GZIP", "br, gzip;q=0.1", "*", "*;q=0, gzip", "identity, gzip"] {
            assert!(takes(codings), "{codings}");
        }
        for codings in
            ["", "br", "gzip;q=0", "gzip;q=0.000, *", "*;q=0", "identity", "gzip2", "gzip;q=inf"]
        {
            assert!(!takes(codings), "{codings}");
        }
    }
}
