//! Writes and reads frames of HTTP/2 (RFC 9113) by hand.

use tokio::io::{AsyncRead, AsyncReadExt};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame without settings: the defaults.
pub(crate) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// A window of 0: the server may send nothing of a response.
pub(crate) const NO_WINDOW: &[u8] = &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];

pub(crate) const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7];

pub(crate) const HEADERS: u8 = 1;

/// Returns a `GET` of a path.
pub(crate) fn get(stream: u8, path: &str) -> Vec<u8> {
    let length = |length: usize| u8::try_from(length).expect("short");
    let fields =
        [&[0x82, 0x86, 0x04, length(path.len())], path.as_bytes(), &[0x01, 1, b'x']].concat();
    [&[0, 0, length(fields.len()), HEADERS, 5, 0, 0, 0, stream], &fields[..]].concat()
}

/// Reads frames up to one of this type, and returns its content.
pub(crate) async fn frame(stream: &mut (impl AsyncRead + Unpin), wanted: u8) -> Vec<u8> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut content = vec![0; length as usize];
        stream.read_exact(&mut content).await.expect("all of it");
        if head[3] == wanted {
            return content;
        }
    }
}

/// Returns a `GET /id/a` with 235 headers, 110 of them different. The first such head of a
/// connection fills the table of headers with these, and later heads name only entries of the
/// table. A head has a few hundred bytes, and is in memory as large as a head may be.
pub(crate) fn large(stream: u8, is_first: bool) -> Vec<u8> {
    const NAMES: u8 = 110;
    /// The index of the newest entry of the table.
    const NEWEST: u8 = 62;
    let mut fields = b"\x82\x86\x04\x05/id/a\x01\x01x".to_vec();
    fields.extend((0..NAMES).flat_map(|number| match is_first {
        true => vec![0x40, 2, b'a' + number / 10, b'0' + number % 10, 0],
        false => indexed(NEWEST + number),
    }));
    fields.extend((0..125).flat_map(|number| indexed(NEWEST + number % NAMES)));
    headers(stream, END_STREAM, &fields)
}

/// Returns a header of the table.
fn indexed(index: u8) -> Vec<u8> {
    match index.checked_sub(127) {
        None => vec![0x80 | index],
        Some(rest) => vec![0xff, rest],
    }
}

pub(crate) const END_STREAM: u8 = 1;

/// Returns a whole head, or trailers, of these encoded fields.
pub(crate) fn headers(stream: u8, flags: u8, fields: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(fields.len()).expect("a frame").to_be_bytes();
    [&[0, high, low, HEADERS, 4 | flags, 0, 0, 0, stream], fields].concat()
}
