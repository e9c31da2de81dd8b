//! A connection's stream, which notes what is received.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, tcp::OwnedReadHalf},
};

use super::{activity::ConnectionActivity, output::Output, socket};

/// A connection's stream, which notes what is received.
#[derive(Debug)]
pub(super) struct TimedStream {
    input: OwnedReadHalf,
    output: Output,
    activity: Arc<ConnectionActivity>,
}

impl TimedStream {
    /// Returns the stream, and its output, for whoever polls it.
    pub(super) fn new(stream: TcpStream, activity: Arc<ConnectionActivity>) -> (Self, Output) {
        let (input, output) = stream.into_split();
        let output = Output::new(output, Arc::clone(&activity));
        (Self { input, output: output.clone(), activity }, output)
    }
}

impl Drop for TimedStream {
    /// Discards what the kernel still holds for a client that does not read: closing would keep it
    /// for minutes.
    fn drop(&mut self) {
        if self.activity.is_blocked() {
            socket::discard_unsent(self.input.as_ref());
        }
        self.activity.closed();
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let Poll::Ready(read) = Pin::new(&mut self.input).poll_read(context, buffer) else {
            self.activity.read_nothing();
            return Poll::Pending;
        };
        read?;
        if buffer.filled().len() > before {
            self.activity.read_something();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.output.lock().poll_write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.output.lock().poll_write(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Called when everything was written that there is so far. Whoever polls the stream sends it.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.lock().flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.lock().poll_shutdown(context)
    }
}
