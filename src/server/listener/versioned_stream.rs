//! A stream whose version of HTTP is known, and which paces the reads of HTTP/2.
//!
//! [`VersionedStream::sniff`] tells the versions apart by the first bytes, and gives them to hyper
//! again. For HTTP/2, the stream then bounds what h2 decodes before this service sees a request. It
//! reads a few KiB for each poll of the connection, and only while the budget of `heads` has room.
//! h2 keeps trailers in memory, so the first trailers of a connection retire it, and the next ones
//! end it. The stream parses the heads of frames only to count trailers; h2 parses everything else.
//!
//! The caller must raise `polls` before each poll of the connection: without that, the stream reads
//! nothing after [`READ_AT_A_TIME`] bytes. Tests: below, and tests/faults/overload/heads.rs.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    sync::Notify,
};

use super::heads::{HeadBudget, WaitForRoom};

/// The first bytes of a client of HTTP/2 (RFC 9113, section 3.4); no request of HTTP/1 begins with
/// them.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes that a connection of HTTP/2 reads in one poll of its task. The kernel's buffer holds
/// thousands of frames, and h2 decodes all heads that it can read at once.
const READ_AT_A_TIME: usize = 4 * 1024;

/// A stream whose first bytes were read to tell the version.
pub(super) struct VersionedStream<S> {
    stream: S,
    first: [u8; PREFACE.len()],
    /// How many of `first` were read from the stream.
    received: usize,
    /// How many of these bytes the reader of this stream has got.
    replayed: usize,
    /// Set for HTTP/2.
    pace: Option<ReadPace>,
}

/// The pace of a connection of HTTP/2.
struct ReadPace {
    limits: ReadLimits,
    frames: Frames,
    /// The number of the poll in which it read last, and the bytes that it read in that poll.
    poll: u32,
    read_in_poll: usize,
    wait: WaitForRoom,
}

/// The bounds of the reads of a connection of HTTP/2.
#[derive(Clone, Debug)]
pub(super) struct ReadLimits {
    pub(super) budget: HeadBudget,
    /// Counts the polls of the connection's task. A read cannot tell where a poll begins: hyper
    /// reads again within the same poll, also after a read that was refused.
    pub(super) polls: Arc<AtomicU32>,
    /// Ends the connection gracefully, with GOAWAY.
    pub(super) retired: Arc<Notify>,
}

impl<S: AsyncRead + Unpin> VersionedStream<S> {
    /// Reads only the bytes that tell the versions apart.
    pub(super) async fn sniff(stream: S) -> io::Result<Self> {
        let first = [0; PREFACE.len()];
        let mut sniffed = Self { stream, first, received: 0, replayed: 0, pace: None };
        while !sniffed.is_http2() && PREFACE.starts_with(&sniffed.first[..sniffed.received]) {
            match sniffed.stream.read(&mut sniffed.first[sniffed.received..]).await? {
                0 => break,
                count => sniffed.received += count,
            }
        }
        Ok(sniffed)
    }

    pub(super) fn is_http2(&self) -> bool {
        self.first == *PREFACE
    }

    /// Paces the reads of HTTP/2 from now on.
    pub(super) fn pace_reads(&mut self, limits: ReadLimits) {
        let poll = limits.polls.load(Relaxed);
        let (frames, wait) = (Frames::default(), WaitForRoom::default());
        self.pace = Some(ReadPace { limits, frames, poll, read_in_poll: 0, wait });
    }
}

impl ReadPace {
    /// Reads at most [`READ_AT_A_TIME`] bytes in each poll of the task, while the budget has room.
    fn poll_read(
        &mut self,
        stream: Pin<&mut impl AsyncRead>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = self.limits.polls.load(Relaxed);
        if poll != self.poll {
            (self.poll, self.read_in_poll) = (poll, 0);
        }
        let size = (READ_AT_A_TIME - self.read_in_poll).min(buffer.remaining());
        if size == 0 {
            // Woken at once, but behind the tasks that are ready now, which may drop heads.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.limits.budget.poll_room(&mut self.wait, context));
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(size));
        ready!(stream.poll_read(context, &mut part))?;
        let count = part.filled().len();
        match self.frames.follow(part.filled()) {
            0 => {}
            // GOAWAY first: requests under way are still answered.
            1 => self.limits.retired.notify_one(),
            _ => return Poll::Ready(Err(io::Error::other("trailers are not read"))),
        }
        self.read_in_poll += count;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// Follows the frames of a client of HTTP/2, and parses their heads (RFC 9113, section 4.1).
#[derive(Debug, Default)]
struct Frames {
    head: [u8; 9],
    /// How many bytes of `head` were read.
    head_len: usize,
    /// How many bytes of the frame's content are still to come.
    content_left: usize,
    /// The highest stream that was opened.
    last_stream: u32,
    /// How many HEADERS frames were trailers. h2 keeps them in memory as long as the stream lasts.
    trailers: usize,
}

impl Frames {
    const HEADERS: u8 = 1;

    /// Parses the next bytes, and returns the number of trailers so far.
    fn follow(&mut self, mut bytes: &[u8]) -> usize {
        while !bytes.is_empty() {
            if self.content_left > 0 {
                let skipped = self.content_left.min(bytes.len());
                self.content_left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let count = (self.head.len() - self.head_len).min(bytes.len());
            self.head[self.head_len..][..count].copy_from_slice(&bytes[..count]);
            self.head_len += count;
            bytes = &bytes[count..];
            if self.head_len == self.head.len() {
                self.head_len = 0;
                self.begin_frame();
            }
        }
        self.trailers
    }

    fn begin_frame(&mut self) {
        let [a, b, c, kind, _, stream @ ..] = self.head;
        self.content_left = u32::from_be_bytes([0, a, b, c]) as usize;
        if kind == Self::HEADERS {
            // The highest bit is reserved.
            let stream = u32::from_be_bytes(stream) << 1 >> 1;
            if stream <= self.last_stream {
                self.trailers += 1;
            }
            self.last_stream = self.last_stream.max(stream);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for VersionedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.replayed < this.received {
            let count = (this.received - this.replayed).min(buffer.remaining());
            buffer.put_slice(&this.first[this.replayed..][..count]);
            this.replayed += count;
            return Poll::Ready(Ok(()));
        }
        let stream = Pin::new(&mut this.stream);
        match &mut this.pace {
            Some(pace) => pace.poll_read(stream, context, buffer),
            None => stream.poll_read(context, buffer),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for VersionedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::FutureExt as _;
    use tokio::io::repeat;

    use super::*;

    /// hyper reads again after each request that it got, within the same poll.
    #[test]
    fn a_poll_reads_a_little_however_often_it_asks() {
        let stream = PREFACE.as_slice().chain(repeat(0));
        let mut sniffed =
            VersionedStream::sniff(stream).now_or_never().expect("ready").expect("read");
        let limits = ReadLimits {
            budget: HeadBudget::new(1),
            polls: Arc::default(),
            retired: Arc::default(),
        };
        sniffed.pace_reads(limits.clone());
        sniffed.read_exact(&mut [0; PREFACE.len()]).now_or_never().expect("ready").expect("read");
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            limits.polls.fetch_add(1, Relaxed);
            let mut read = 0;
            for _ in 0..100 {
                let mut bytes = [0; 1000];
                let mut buffer = ReadBuf::new(&mut bytes);
                if Pin::new(&mut sniffed).poll_read(&mut context, &mut buffer).is_ready() {
                    read += buffer.filled().len();
                }
            }
            assert_eq!(read, READ_AT_A_TIME);
        }
    }

    #[test]
    fn the_first_bytes_tell_the_version_and_are_read_again() {
        let get = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".as_slice();
        let almost = [&PREFACE[..23], b"x"].concat();
        let http2 = [PREFACE, b"rest".as_slice()].concat();
        for (bytes, is_http2) in
            [(get, false), (b"", false), (b"PRI", false), (&almost, false), (&http2, true)]
        {
            let read = async {
                let mut sniffed = VersionedStream::sniff(bytes).await.expect("read");
                assert_eq!(sniffed.is_http2(), is_http2);
                let mut all = Vec::new();
                sniffed.read_to_end(&mut all).await.expect("read");
                all
            };
            assert_eq!(read.now_or_never().expect("ready"), bytes);
        }
    }

    #[test]
    fn trailers_are_counted_however_the_frames_are_cut() {
        let frame = |kind, stream, content: &[u8]| {
            let length = u8::try_from(content.len()).expect("short");
            [&[0, 0, length, kind, 5, 0, 0, 0, stream], content].concat()
        };
        // The content looks like a HEADERS frame.
        let headers = |stream| frame(Frames::HEADERS, stream, &[0, 0, 0, 1, 0, 0, 0, 0, 1]);
        let other = |stream| frame(9, stream, &[]);
        for (frames, trailers) in [
            ([headers(1), headers(3), other(3), headers(7)].concat(), 0),
            ([headers(1), headers(3), headers(1), other(1)].concat(), 1),
            ([headers(5), headers(3), headers(5), headers(0x85)].concat(), 2),
        ] {
            for size in [1, 2, 9, 10, 100] {
                let mut follower = Frames::default();
                let seen = frames.chunks(size).map(|part| follower.follow(part)).last();
                assert_eq!(seen, Some(trailers));
            }
        }
    }
}
