//! A TCP stream that reports reads and writes to the connection's [`Activity`].
//!
//! Three things are visible only here:
//!
//! - a read that finds nothing: the client did not send its request at once;
//! - the bytes received since the last answered request, the only bound on frames of HTTP/2 that
//!   are no request;
//! - a write that finds the kernel's buffer full: the client does not read.
//!
//! With TLS, this stream is below the encryption, so it counts encrypted bytes. Time-outs are up to
//! `open`. The stream itself ends a connection only if too many bytes came without an answered
//! request. Tests: tests/http/unread.rs and tests/http/connection_limits.rs.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{activity::Activity, socket};

#[derive(Debug)]
pub(super) struct WatchedStream {
    stream: TcpStream,
    activity: Arc<Activity>,
    /// Whether the last write found the kernel's buffer full.
    is_blocked: bool,
}

impl WatchedStream {
    pub(super) fn new(stream: TcpStream, activity: Arc<Activity>) -> Self {
        Self { stream, activity, is_blocked: false }
    }

    fn note(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if !matches!(written, Poll::Ready(Err(_))) {
            self.is_blocked = written.is_pending();
            self.activity.note_write(self.is_blocked);
        }
        written
    }
}

impl Drop for WatchedStream {
    /// Discards the unsent bytes of a client that does not read: otherwise the kernel would keep
    /// them for minutes after the close.
    fn drop(&mut self) {
        if self.is_blocked {
            socket::discard_unsent(&self.stream);
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            self.activity.note_empty_read();
        }
        let count = buffer.filled().len() - before;
        if self.activity.count_received(count) {
            return read;
        }
        Poll::Ready(Err(io::Error::other("too much was received without a request")))
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
