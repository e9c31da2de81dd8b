//! Counting answers in the bytes that arrive on a connection.

use std::{error::Error, fmt, mem, ops::Range};

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1, answers with a `content-length`.
    Http,
    /// Redis' protocol, answers of one line.
    Redis,
}

/// Bytes that are no answer.
#[derive(Debug)]
pub(crate) struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Malformed {}

/// The head of an HTTP answer.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) length: usize,
    pub(crate) body: usize,
    content_length: Range<usize>,
}

impl Head {
    /// Reads a head; `None` while it is not whole.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let status = response.parse(bytes).map_err(|error| Malformed(error.to_string()))?;
        let httparse::Status::Complete(length) = status else { return Ok(None) };
        let status = response.code.expect("a whole head has one");
        let named =
            |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case("content-length");
        let value = response.headers.iter().find(named).map(|header| header.value);
        let value = value.ok_or_else(|| Malformed("an answer without content-length".into()))?;
        let body = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
        let body = body.ok_or_else(|| Malformed("content-length is no number".into()))?;
        let from = value.as_ptr() as usize - bytes.as_ptr() as usize;
        Ok(Some(Self { status, length, body, content_length: from..from + value.len() }))
    }
}

/// The answers counted in some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) good: u64,
    /// Answers that are an error.
    pub(crate) bad: u64,
}

/// How far the answers of one connection have been counted.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// The start of an answer whose head is not whole yet.
    begun: Vec<u8>,
    /// How much is to come of the answer in hand, and whether it is a good one.
    rest: Option<(usize, bool)>,
}

/// Counts answers. It remembers the last head: the next is mostly equal to it but for its date,
/// and comparing is much cheaper than reading it again.
#[derive(Debug)]
pub(crate) struct Counter {
    protocol: Protocol,
    last: Option<(Head, Vec<u8>)>,
}

impl Counter {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self { protocol, last: None }
    }

    /// Counts the answers that end within `bytes`, which arrived next on a connection.
    pub(crate) fn count(&mut self, at: &mut Position, bytes: &[u8]) -> Result<Counted, Malformed> {
        if at.begun.is_empty() {
            return self.count_joined(at, bytes);
        }
        let mut joined = mem::take(&mut at.begun);
        joined.extend_from_slice(bytes);
        self.count_joined(at, &joined)
    }

    fn count_joined(&mut self, at: &mut Position, mut bytes: &[u8]) -> Result<Counted, Malformed> {
        let mut counted = Counted::default();
        loop {
            if let Some((rest, good)) = at.rest {
                if bytes.len() < rest {
                    at.rest = Some((rest - bytes.len(), good));
                    return Ok(counted);
                }
                bytes = &bytes[rest..];
                at.rest = None;
                *(if good { &mut counted.good } else { &mut counted.bad }) += 1;
            }
            if bytes.is_empty() {
                return Ok(counted);
            }
            at.rest = match self.protocol {
                Protocol::Http => self.http(bytes)?,
                Protocol::Redis => line(bytes)?,
            };
            if at.rest.is_none() {
                at.begun.extend_from_slice(bytes);
                return Ok(counted);
            }
        }
    }

    /// The length of the answer that begins here, and whether it is a good one.
    fn http(&mut self, bytes: &[u8]) -> Result<Option<(usize, bool)>, Malformed> {
        if let Some((head, first)) = &self.last
            && head.is_like(first, bytes)
        {
            return Ok(Some((head.length + head.body, true)));
        }
        let Some(head) = Head::read(bytes)? else { return Ok(None) };
        let (length, good) = (head.length + head.body, head.status == 200);
        if good {
            let first = bytes[..head.length].to_vec();
            self.last = Some((head, first));
        }
        Ok(Some((length, good)))
    }
}

impl Head {
    /// Whether `bytes` begin with a head of the same status, length and `content-length`.
    fn is_like(&self, first: &[u8], bytes: &[u8]) -> bool {
        let same = |part: Range<usize>| bytes[part.clone()] == first[part];
        bytes.len() >= self.length
            && same(0..STATUS_LINE)
            && same(self.content_length.clone())
            && same(self.length - 4..self.length)
    }
}

/// As long as `HTTP/1.1 200`.
const STATUS_LINE: usize = 12;

/// The length of the line that begins here, and whether it is a number.
fn line(bytes: &[u8]) -> Result<Option<(usize, bool)>, Malformed> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n");
    match (bytes[0], end) {
        (_, None) => Ok(None),
        (b':', Some(end)) => Ok(Some((end + 2, true))),
        (b'-', Some(end)) => Ok(Some((end + 2, false))),
        (other, _) => Err(Malformed(format!("an answer begins with {:?}", char::from(other)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ndate: a\r\n\r\nabc\
                           HTTP/1.1 200 OK\r\ncontent-length: 3\r\ndate: b\r\n\r\ndef\
                           HTTP/1.1 200 OK\r\ncontent-length: 0\r\ndate: c\r\n\r\n\
                           HTTP/1.1 503 No\r\ncontent-length: 3\r\ndate: d\r\n\r\nghi\
                           HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHTTP/1.1 200";

    #[test]
    fn answers_are_counted_however_they_arrive() {
        for size in 1..=ANSWERS.len() {
            let (mut counter, mut at) = (Counter::new(Protocol::Http), Position::default());
            let mut sum = Counted::default();
            for piece in ANSWERS.as_bytes().chunks(size) {
                let counted = counter.count(&mut at, piece).expect("answers");
                sum.good += counted.good;
                sum.bad += counted.bad;
            }
            assert_eq!(sum, Counted { good: 4, bad: 1 }, "in pieces of {size}");
            assert!(at.begun.is_empty() && at.rest.is_none());
        }
    }

    #[test]
    fn lines_of_redis_are_counted_however_they_arrive() {
        let answers = b":1\r\n:123\r\n-ERR no\r\n:4\r\n";
        for size in 1..=answers.len() {
            let (mut counter, mut at) = (Counter::new(Protocol::Redis), Position::default());
            let mut sum = Counted::default();
            for piece in answers.chunks(size) {
                let counted = counter.count(&mut at, piece).expect("answers");
                sum.good += counted.good;
                sum.bad += counted.bad;
            }
            assert_eq!(sum, Counted { good: 3, bad: 1 }, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for bytes in ["nonsense\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"] {
            let counted =
                Counter::new(Protocol::Http).count(&mut Position::default(), bytes.as_bytes());
            assert!(counted.is_err(), "{bytes}");
        }
    }
}
