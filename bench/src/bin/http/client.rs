//! A plain client: one connection, one request at a time.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use super::{answer::Head, tools::Result};

/// A connection to a server that is kept open.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(Self { stream, bytes: Vec::new() })
    }

    /// The body of a good answer.
    pub(crate) fn get(&mut self, path: &str) -> Result<&[u8]> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        self.stream.write_all(request.as_bytes())?;
        self.bytes.clear();
        let mut piece = [0; 64 * 1024];
        loop {
            let read = self.stream.read(&mut piece)?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            self.bytes.extend_from_slice(&piece[..read]);
            let Some(head) = Head::read(&self.bytes)? else { continue };
            if self.bytes.len() < head.length + head.body {
                continue;
            }
            let body = &self.bytes[head.length..];
            return if head.status == 200 {
                Ok(body)
            } else {
                Err(format!("{path}: {} {}", head.status, String::from_utf8_lossy(body)).into())
            };
        }
    }
}
