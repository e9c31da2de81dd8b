//! The bytes of the requests, composed before anything is measured.

use super::{http2, responses::Protocol};

/// Codes take turns so that the clock is no limit: with 12 bits of sequence a code has 4096 IDs a
/// millisecond.
const CODES: usize = 64;
/// For large batches: one of 1000 uses a quarter of a code's millisecond.
const CODES_FOR_BATCHES: usize = 1024;

/// Requests, in the batches in which a connection sends them.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) protocol: Protocol,
    /// The requests of a batch; the next batch follows when all of them have a response.
    pub(crate) depth: usize,
    /// The IDs in a response.
    pub(crate) ids: usize,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Requests {
    /// `/id`, with this many codes in turn.
    pub(crate) fn one(depth: usize, codes: usize) -> Self {
        Self::http(depth, 1, codes, |code| format!("/id/{}", code_name(code)))
    }

    /// `/ids` with this `n`.
    pub(crate) fn many(depth: usize, n: usize) -> Self {
        let codes = if n < 1000 { CODES } else { CODES_FOR_BATCHES };
        Self::http(depth, n, codes, |code| format!("/ids/{}?n={n}", code_name(code)))
    }

    /// `/id`, with enough codes that the clock is no limit.
    pub(crate) fn id(depth: usize) -> Self {
        Self::one(depth, CODES)
    }

    /// Always the same path, whose response is as long as one with this many IDs.
    pub(crate) fn constant(depth: usize, ids: usize, path: &str) -> Self {
        Self::http(depth, ids, 1, |_| path.to_owned())
    }

    /// The same over HTTP/2: each request is a stream.
    pub(crate) fn over_http2(depth: usize, codes: usize, path: impl Fn(usize) -> String) -> Self {
        Self::new(Protocol::Http2, depth, 1, codes, |code| http2::request(&path(code)))
    }

    /// `/id` over HTTP/2.
    pub(crate) fn id_over_http2(depth: usize) -> Self {
        Self::over_http2(depth, CODES, |code| format!("/id/{}", code_name(code)))
    }

    /// `INCR` of one key for each code.
    pub(crate) fn increments(depth: usize) -> Self {
        Self::new(Protocol::Redis, depth, 1, CODES, |key| {
            let key = code_name(key);
            format!("*2\r\n$4\r\nINCR\r\n${}\r\n{key}\r\n", key.len()).into_bytes()
        })
    }

    fn http(depth: usize, ids: usize, codes: usize, path: impl Fn(usize) -> String) -> Self {
        Self::new(Protocol::Http, depth, ids, codes, |code| {
            let path = path(code);
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n").into_bytes()
        })
    }

    fn new(
        protocol: Protocol,
        depth: usize,
        ids: usize,
        codes: usize,
        request: impl Fn(usize) -> Vec<u8>,
    ) -> Self {
        // The turns continue from batch to batch; the last batch ends with the last code.
        let batches = if codes.is_multiple_of(depth) { codes / depth } else { codes };
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for batch in 0..batches {
            for at in 0..depth {
                bytes.extend(request((batch * depth + at) % codes));
            }
            ends.push(bytes.len());
        }
        Self { protocol, depth, ids, bytes, ends }
    }

    /// Returns a batch by its number, which wraps around.
    pub(crate) fn batch(&self, number: usize) -> &[u8] {
        let at = number % self.ends.len();
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from..self.ends[at]]
    }
}

/// Returns the name of a code; all have the same length.
pub(crate) fn code_name(number: usize) -> String {
    format!("code-{number:06}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_use_every_code_equally() {
        for (codes, depth) in [(1, 1), (1, 16), (10, 16), (64, 16), (100, 16)] {
            let requests = Requests::one(depth, codes);
            let sent: String = (0..requests.ends.len())
                .map(|batch| str::from_utf8(requests.batch(batch)).expect("text").to_owned())
                .collect();
            let times = |code| sent.matches(&format!("/id/{} ", code_name(code))).count();
            assert!((0..codes).all(|code| times(code) == times(0)), "{codes} codes, {depth} deep");
            assert_eq!(times(0) * codes, requests.ends.len() * depth);
        }
    }
}
