//! A connection's stream, which notes what is received and sent.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{
    activity::{ConnectionActivity, Phase},
    socket,
};

/// A connection's stream, which notes what is received and sent.
#[derive(Debug)]
pub(super) struct TimedStream {
    stream: TcpStream,
    activity: Arc<ConnectionActivity>,
}

impl TimedStream {
    pub(super) fn new(stream: TcpStream, activity: Arc<ConnectionActivity>) -> Self {
        Self { stream, activity }
    }

    fn note(
        &self,
        context: &Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => self.activity.blocked(),
            Poll::Ready(Ok(bytes)) => self.activity.sent(*bytes, context.waker()),
            Poll::Ready(Err(_)) => {}
        }
        written
    }
}

impl Drop for TimedStream {
    /// Discards what the kernel still holds for a client that does not read: closing would keep it
    /// for minutes.
    fn drop(&mut self) {
        if self.activity.is_blocked() {
            socket::discard_unsent(&self.stream);
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
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) else {
            self.activity.read_nothing();
            return Poll::Pending;
        };
        read?;
        if buffer.filled().len() > before {
            self.activity.advance(Phase::Idle, Phase::Head);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when everything was written that there is so far.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.activity.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
