//! Frames of HTTP/2 (RFC 9113), written and read by hand.

use tokio::io::{AsyncRead, AsyncReadExt};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// No setting but the defaults.
pub(crate) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

pub(crate) const HEADERS: u8 = 1;

/// Reads frames up to one of this type, and returns what that carries.
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
