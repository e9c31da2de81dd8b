//! Counting the responses in the bytes that arrive on a connection.

use std::{mem, ops::Range};

use super::{http2, support::Result};

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1, with a `content-length` in each response.
    Http,
    /// HTTP/2, of which the server's frames are counted that end a stream.
    Http2,
    /// Redis' protocol, with responses of one line.
    Redis,
}

/// The head of an HTTP response.
#[derive(Debug)]
struct Head {
    status: u16,
    length: usize,
    body_length: usize,
    /// Where the value of `content-length` stands.
    content_length: Range<usize>,
}

impl Head {
    /// Parses a head; `None` while it is incomplete.
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = response.parse(bytes)? else { return Ok(None) };
        let status = response.code.expect("a complete head has one");
        let mut headers = response.headers.iter();
        let header = headers.find(|header| header.name.eq_ignore_ascii_case("content-length"));
        let value = header.ok_or("a response without content-length")?.value;
        let body_length = str::from_utf8(value)?.parse()?;
        let from = value.as_ptr() as usize - bytes.as_ptr() as usize;
        Ok(Some(Self { status, length, body_length, content_length: from..from + value.len() }))
    }

    /// Whether `bytes` begin with a head of the same status, length and `content-length` as this
    /// one, which was parsed from `first`.
    fn is_like(&self, first: &[u8], bytes: &[u8]) -> bool {
        let same = |part: Range<usize>| bytes[part.clone()] == first[part];
        bytes.len() >= self.length
            && same(0..STATUS_LINE)
            && same(self.content_length.clone())
            && same(self.length - 4..self.length)
    }
}

/// The length of `HTTP/1.1 200`.
const STATUS_LINE: usize = 12;

/// The responses counted in some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) good: u64,
    /// Error responses.
    pub(crate) bad: u64,
}

impl Counted {
    pub(crate) const GOOD: Self = Self { good: 1, bad: 0 };
    pub(crate) const BAD: Self = Self { good: 0, bad: 1 };
}

/// How far the responses of one connection have been counted.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// The beginning of a response whose head is incomplete.
    begun: Vec<u8>,
    /// The missing length of the current part of a response, and its count once it is complete.
    rest: Option<(usize, Counted)>,
}

/// Counts responses. It keeps the last head: the next one mostly differs in its date only, and
/// comparing is much cheaper than parsing.
#[derive(Debug)]
pub(crate) struct ResponseCounter {
    protocol: Protocol,
    last: Option<(Head, Vec<u8>)>,
}

impl ResponseCounter {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self { protocol, last: None }
    }

    /// Counts the responses that end within `bytes`, which arrived next on a connection.
    pub(crate) fn count(&mut self, at: &mut Position, bytes: &[u8]) -> Result<Counted> {
        if at.begun.is_empty() {
            return self.count_joined(at, bytes);
        }
        let mut joined = mem::take(&mut at.begun);
        joined.extend_from_slice(bytes);
        self.count_joined(at, &joined)
    }

    fn count_joined(&mut self, at: &mut Position, mut bytes: &[u8]) -> Result<Counted> {
        let mut counted = Counted::default();
        loop {
            if let Some((rest, part)) = at.rest {
                if bytes.len() < rest {
                    at.rest = Some((rest - bytes.len(), part));
                    return Ok(counted);
                }
                bytes = &bytes[rest..];
                at.rest = None;
                counted.good += part.good;
                counted.bad += part.bad;
            }
            if bytes.is_empty() {
                return Ok(counted);
            }
            at.rest = match self.protocol {
                Protocol::Http => self.http(bytes)?,
                Protocol::Http2 => http2::part(bytes)?,
                Protocol::Redis => line(bytes)?,
            };
            if at.rest.is_none() {
                at.begun.extend_from_slice(bytes);
                return Ok(counted);
            }
        }
    }

    /// Returns the length of the response that begins here, and its count.
    fn http(&mut self, bytes: &[u8]) -> Result<Option<(usize, Counted)>> {
        if let Some((head, first)) = &self.last
            && head.is_like(first, bytes)
        {
            return Ok(Some((head.length + head.body_length, Counted::GOOD)));
        }
        let Some(head) = Head::parse(bytes)? else { return Ok(None) };
        let (length, good) = (head.length + head.body_length, head.status == 200);
        if good {
            let first = bytes[..head.length].to_vec();
            self.last = Some((head, first));
        }
        Ok(Some((length, if good { Counted::GOOD } else { Counted::BAD })))
    }
}

/// Returns the length of the line that begins here; a number is good.
fn line(bytes: &[u8]) -> Result<Option<(usize, Counted)>> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n");
    match (bytes[0], end) {
        (_, None) => Ok(None),
        (b':', Some(end)) => Ok(Some((end + 2, Counted::GOOD))),
        (b'-', Some(end)) => Ok(Some((end + 2, Counted::BAD))),
        (other, _) => Err(format!("a response begins with {:?}", char::from(other)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSES: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ndate: a\r\n\r\nabc\
                             HTTP/1.1 200 OK\r\ncontent-length: 3\r\ndate: b\r\n\r\ndef\
                             HTTP/1.1 200 OK\r\ncontent-length: 0\r\ndate: c\r\n\r\n\
                             HTTP/1.1 503 No\r\ncontent-length: 3\r\ndate: d\r\n\r\nghi\
                             HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHTTP/1.1 200";

    fn check_in_pieces(protocol: Protocol, bytes: &[u8], expected: Counted) {
        for size in 1..=bytes.len() {
            let (mut counter, mut at) = (ResponseCounter::new(protocol), Position::default());
            let mut sum = Counted::default();
            for piece in bytes.chunks(size) {
                let counted = counter.count(&mut at, piece).expect("responses");
                sum.good += counted.good;
                sum.bad += counted.bad;
            }
            assert_eq!(sum, expected, "in pieces of {size}");
            assert!(at.begun.is_empty() && at.rest.is_none());
        }
    }

    #[test]
    fn http_responses_are_counted_in_any_pieces() {
        check_in_pieces(Protocol::Http, RESPONSES.as_bytes(), Counted { good: 4, bad: 1 });
    }

    #[test]
    fn redis_responses_are_counted_in_any_pieces() {
        let responses = b":1\r\n:123\r\n-ERR no\r\n:4\r\n";
        check_in_pieces(Protocol::Redis, responses, Counted { good: 3, bad: 1 });
    }

    #[test]
    fn malformed_responses_are_refused() {
        for bytes in ["nonsense\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"] {
            let mut counter = ResponseCounter::new(Protocol::Http);
            let counted = counter.count(&mut Position::default(), bytes.as_bytes());
            assert!(counted.is_err(), "{bytes}");
        }
    }
}
