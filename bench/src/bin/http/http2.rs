//! The part of HTTP/2 (RFC 9113) that a load of `GET` requests needs.

use super::{responses::Counted, support::Result};

/// The bytes before the payload of a frame.
const FRAME_HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The largest window: no load of a round takes as much.
const WINDOW: u32 = (1 << 31) - 1;
/// The initial window of a connection, before a WINDOW_UPDATE.
const FIRST_WINDOW: u32 = 65_535;

/// Returns the bytes that a client sends first on a connection.
pub(crate) fn preface() -> Vec<u8> {
    let initial_window = [&[0, 4], &WINDOW.to_be_bytes()[..]].concat();
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, &initial_window),
        frame(WINDOW_UPDATE, 0, &(WINDOW - FIRST_WINDOW).to_be_bytes()),
    ]
    .concat()
}

/// A `GET` of this path, of a stream that is not numbered yet.
pub(crate) fn request(path: &str) -> Vec<u8> {
    // Of the static table of HPACK (RFC 7541): GET, http, and the names of path, authority and
    // accept with texts that no table remembers.
    let fields = [
        &[0x82, 0x86][..],
        &text(&[0x04], path),
        &text(&[0x01], "127.0.0.1"),
        &text(&[0x0f, 0x04], "*/*"),
    ];
    frame(HEADERS, END_STREAM | END_HEADERS, &fields.concat())
}

fn text(name: &[u8], value: &str) -> Vec<u8> {
    let length = u8::try_from(value.len()).expect("short");
    [name, &[length], value.as_bytes()].concat()
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 0], payload].concat()
}

/// Numbers the streams of these requests from this one on, and returns the next number.
pub(crate) fn number(requests: &mut [u8], mut stream: u32) -> u32 {
    let mut rest = requests;
    while let Some((head, after)) = rest.split_at_mut_checked(FRAME_HEAD) {
        head[5..].copy_from_slice(&stream.to_be_bytes());
        stream += 2;
        let length = payload(head);
        rest = &mut after[length..];
    }
    stream
}

/// Returns the length of the frame that begins here, and the response that it ends.
pub(crate) fn part(bytes: &[u8]) -> Result<Option<(usize, Counted)>> {
    let Some(head) = bytes.get(..FRAME_HEAD) else { return Ok(None) };
    let length = FRAME_HEAD + payload(head);
    let (kind, flags) = (head[3], head[4]);
    let counted = match kind {
        GOAWAY => return Err("the server ends the connection".into()),
        RST_STREAM => Counted::BAD,
        HEADERS => match bytes.get(FRAME_HEAD) {
            None => return Ok(None),
            // 200 of the static table.
            Some(0x88) => Counted::default(),
            Some(_) => return Err("an error response".into()),
        },
        DATA if flags & END_STREAM != 0 => Counted::GOOD,
        _ => Counted::default(),
    };
    Ok(Some((length, counted)))
}

fn payload(head: &[u8]) -> usize {
    usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_numbered_one_after_the_other() {
        let mut requests = [request("/a"), request("/long")].concat();
        assert_eq!(number(&mut requests, 7), 11);
        let second = request("/a").len();
        assert_eq!((requests[8], requests[second + 8]), (7, 9));
    }

    #[test]
    fn a_response_counts_when_its_stream_ends() {
        let head = frame(HEADERS, END_HEADERS, &[0x88]);
        assert_eq!(part(&head).expect("valid"), Some((10, Counted::default())));
        let end = frame(DATA, END_STREAM, b"abc");
        assert_eq!(part(&end).expect("valid"), Some((12, Counted::GOOD)));
        assert_eq!(part(&end[..5]).expect("valid"), None);
        assert_eq!(part(&frame(RST_STREAM, 0, &[0; 4])).expect("valid"), Some((13, Counted::BAD)));
        assert!(part(&frame(HEADERS, END_HEADERS, &[0x8d])).is_err());
    }
}
