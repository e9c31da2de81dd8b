//! A TCP stream that reports reads and writes to the connection's [`Activity`], and the bounds of
//! what the kernel buffers for it.
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
//! request.
//!
//! Accepted connections inherit the options of their listener ([`Buffers`]). Without them, the
//! kernel grows the buffers of a single connection to megabytes, and counts them against the memory
//! limit of the service. Send buffers of new connections shrink as the number of open ones grows;
//! open connections keep theirs. If the kernel refuses an option, the service logs that and runs
//! without it. `server::memory` assumes these bounds. Tests: tests/http/unread.rs,
//! tests/http/connection_limits.rs and tests/faults/overload.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};

use super::activity::Activity;

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
            discard_unsent(&self.stream);
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

/// Connections that may wait to be accepted; the system's own limit may be lower. A client that
/// finds the queue full tries again after a second at the earliest.
const BACKLOG: i32 = 4096;

/// The receive buffer in bytes, which the kernel doubles. Requests are small; a larger one arrives
/// in several parts.
const RECEIVE_BUFFER: usize = 16 * 1024;

/// The smallest and largest send buffer in bytes, which the kernel doubles. With a small buffer,
/// the task that sends a batch of IDs must wake up more often.
const SEND_BUFFER: [usize; 2] = [8 * 1024, 128 * 1024];

/// The most bytes that the kernel takes while the client's window is closed.
#[cfg(target_os = "linux")]
const MOST_NOT_SENT: u32 = 16 * 1024;

/// After this time without an acknowledgement the kernel drops the connection, also one that is
/// closed.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Sets the kernel's buffers of connections that are accepted from now on. All send buffers
/// together take about `memory` bytes, or more if the smallest size needs more.
#[derive(Debug)]
pub(super) struct Buffers {
    memory: u64,
    send_buffer: usize,
}

impl Buffers {
    pub(super) fn new(listener: &TcpListener, memory: u64) -> Self {
        let socket = SockRef::from(listener);
        let set = || {
            socket.listen(BACKLOG)?;
            socket.set_tcp_nodelay(true)?;
            socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
            #[cfg(target_os = "linux")]
            {
                socket.set_tcp_notsent_lowat(MOST_NOT_SENT)?;
                socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
            }
            Ok::<_, std::io::Error>(())
        };
        if let Err(error) = set() {
            tracing::warn!(%error, "cannot bound the kernel's buffers of connections");
        }
        let mut buffers = Self { memory, send_buffer: 0 };
        buffers.adapt(listener, 1);
        buffers
    }

    /// Adapts the send buffers of new connections to the number of open ones.
    pub(super) fn adapt(&mut self, listener: &TcpListener, open: usize) {
        let share = self.memory / 2 / open.max(1) as u64;
        // Rounded to a power of two, so that it changes seldom.
        let size =
            usize::try_from(share).unwrap_or(usize::MAX).clamp(SEND_BUFFER[0], SEND_BUFFER[1]);
        let size = 1 << size.ilog2();
        if size != self.send_buffer {
            self.send_buffer = size;
            if let Err(error) = SockRef::from(listener).set_send_buffer_size(size) {
                tracing::debug!(%error, "cannot bound send buffers");
            }
        }
    }
}

/// Makes the close of a connection discard its unsent bytes.
pub(super) fn discard_unsent(stream: &TcpStream) {
    // A connection that is closed already has nothing to discard.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
