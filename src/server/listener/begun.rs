//! A connection's stream whose version of HTTP is known, which watches the heads of HTTP/2.

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

/// What a client of HTTP/2 sends first (RFC 9113, section 3.4); no request of HTTP/1 begins with it.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes that a connection of HTTP/2 reads before others have their turn: thousands of frames fit
/// into what the kernel holds, and all heads in them are decoded at once.
const READ_AT_A_TIME: usize = 4 * 1024;

/// A stream of which the first bytes were read.
pub(super) struct Begun<S> {
    stream: S,
    first: [u8; PREFACE.len()],
    /// How many of the first bytes were read from the stream.
    read: usize,
    /// How many of those were read again from here.
    given: usize,
    heads: Option<Heads>,
}

/// What is watched of a connection of HTTP/2.
struct Heads {
    watch: HeadWatch,
    frames: Frames,
    /// The turn in which it read last, and the bytes that it read in it.
    turn: u32,
    read: usize,
    wait: WaitForRoom,
}

/// What decides how much of a connection of HTTP/2 is read.
#[derive(Clone, Debug)]
pub(super) struct HeadWatch {
    pub(super) budget: HeadBudget,
    /// Counts the turns of the connection. A read cannot tell by itself when one ends: what serves the
    /// connection goes on reading after a read that was refused.
    pub(super) turns: Arc<AtomicU32>,
    /// Ends the connection gracefully.
    pub(super) retired: Arc<Notify>,
}

impl<S: AsyncRead + Unpin> Begun<S> {
    /// Reads as much as tells the versions apart.
    pub(super) async fn read(stream: S) -> io::Result<Self> {
        let first = [0; PREFACE.len()];
        let mut begun = Self { stream, first, read: 0, given: 0, heads: None };
        while !begun.is_http2() && PREFACE.starts_with(&begun.first[..begun.read]) {
            match begun.stream.read(&mut begun.first[begun.read..]).await? {
                0 => break,
                count => begun.read += count,
            }
        }
        Ok(begun)
    }

    pub(super) fn is_http2(&self) -> bool {
        self.first == *PREFACE
    }

    /// From now on, watches the heads that the client of HTTP/2 sends.
    pub(super) fn watch_heads(&mut self, watch: HeadWatch) {
        let turn = watch.turns.load(Relaxed);
        let (frames, wait) = (Frames::default(), WaitForRoom::default());
        self.heads = Some(Heads { watch, frames, turn, read: 0, wait });
    }
}

impl Heads {
    /// Reads a little in each turn, while there is room for the heads in it.
    fn poll_read(
        &mut self,
        stream: Pin<&mut impl AsyncRead>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let turn = self.watch.turns.load(Relaxed);
        if turn != self.turn {
            (self.turn, self.read) = (turn, 0);
        }
        let size = (READ_AT_A_TIME - self.read).min(buffer.remaining());
        if size == 0 {
            // Tasks that are about to drop heads run before this one.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.watch.budget.poll_room(&mut self.wait, context));
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(size));
        ready!(stream.poll_read(context, &mut part))?;
        let count = part.filled().len();
        match self.frames.follow(part.filled()) {
            0 => {}
            // What is under way is still answered.
            1 => self.watch.retired.notify_one(),
            _ => return Poll::Ready(Err(io::Error::other("trailers are not read"))),
        }
        self.read += count;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// Follows the frames of a client of HTTP/2, of which it reads the heads (RFC 9113, section 4.1).
#[derive(Debug, Default)]
struct Frames {
    head: [u8; 9],
    /// How many bytes of a head were read.
    read: usize,
    /// How many bytes of the frame's content follow.
    rest: usize,
    /// The stream that was opened last.
    last_stream: u32,
    /// How often a stream got headers a second time. h2 keeps those as long as the stream lasts.
    trailers: usize,
}

impl Frames {
    const HEADERS: u8 = 1;

    /// Reads the next bytes; returns how many trailers there were so far.
    fn follow(&mut self, mut bytes: &[u8]) -> usize {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let count = (self.head.len() - self.read).min(bytes.len());
            self.head[self.read..][..count].copy_from_slice(&bytes[..count]);
            self.read += count;
            bytes = &bytes[count..];
            if self.read == self.head.len() {
                self.read = 0;
                self.begin_frame();
            }
        }
        self.trailers
    }

    fn begin_frame(&mut self) {
        let [a, b, c, kind, _, stream @ ..] = self.head;
        self.rest = u32::from_be_bytes([0, a, b, c]) as usize;
        if kind == Self::HEADERS {
            // Without the reserved bit.
            let stream = u32::from_be_bytes(stream) << 1 >> 1;
            if stream <= self.last_stream {
                self.trailers += 1;
            }
            self.last_stream = self.last_stream.max(stream);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let begun = self.get_mut();
        if begun.given < begun.read {
            let count = (begun.read - begun.given).min(buffer.remaining());
            buffer.put_slice(&begun.first[begun.given..][..count]);
            begun.given += count;
            return Poll::Ready(Ok(()));
        }
        let stream = Pin::new(&mut begun.stream);
        match &mut begun.heads {
            Some(heads) => heads.poll_read(stream, context, buffer),
            None => stream.poll_read(context, buffer),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
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

    /// hyper asks for more after each request that it was given, within the same turn.
    #[test]
    fn a_turn_reads_a_little_however_often_it_asks() {
        let stream = PREFACE.as_slice().chain(repeat(0));
        let mut begun = Begun::read(stream).now_or_never().expect("ready").expect("read");
        let watch = HeadWatch {
            budget: HeadBudget::new(1),
            turns: Arc::default(),
            retired: Arc::default(),
        };
        begun.watch_heads(watch.clone());
        begun.read_exact(&mut [0; PREFACE.len()]).now_or_never().expect("ready").expect("read");
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            watch.turns.fetch_add(1, Relaxed);
            let mut read = 0;
            for _ in 0..100 {
                let mut bytes = [0; 1000];
                let mut buffer = ReadBuf::new(&mut bytes);
                if Pin::new(&mut begun).poll_read(&mut context, &mut buffer).is_ready() {
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
                let mut begun = Begun::read(bytes).await.expect("read");
                assert_eq!(begun.is_http2(), is_http2);
                let mut all = Vec::new();
                begun.read_to_end(&mut all).await.expect("read");
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
        // The content looks like a frame of headers.
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
