//! What a connection sends: the responses of one wake-up leave in one write.
//!
//! A client that sends several requests at once has them read together, and each response written by
//! itself would cost a system call. So a write of hyper only gathers, and the connection sends when
//! nothing more can be done at once: no response waits for the next request, or for another one
//! that is not ready.

use std::{
    io::{self, IoSlice},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::{io::AsyncWrite, net::tcp::OwnedWriteHalf};

use super::activity::ConnectionActivity;

/// The most bytes that are gathered. Sixteen responses of ten IDs fit.
const MOST_GATHERED: usize = 8 * 1024;

/// The memory in bytes that is kept for the next response.
const KEPT: usize = 512;

/// The parts that one write has at most: what was gathered, and a response's head and body.
const PARTS: usize = 8;

/// What a connection sends, shared by its stream and its task.
#[derive(Clone, Debug)]
pub(super) struct Output(Arc<Mutex<Gathering>>);

impl Output {
    pub(super) fn new(socket: OwnedWriteHalf, activity: Arc<ConnectionActivity>) -> Self {
        Self(Arc::new(Mutex::new(Gathering {
            socket,
            activity,
            gathered: Vec::new(),
            sent: 0,
            is_gathering: false,
            before: 0,
            is_whole: true,
        })))
    }

    /// Locks for a moment: stream and task are polled one after the other.
    pub(super) fn lock(&self) -> MutexGuard<'_, Gathering> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes that wait for the end of a wake-up.
#[derive(Debug)]
pub(super) struct Gathering {
    socket: OwnedWriteHalf,
    activity: Arc<ConnectionActivity>,
    gathered: Vec<u8>,
    /// How many of these the kernel has taken.
    sent: usize,
    /// False during a TLS handshake, for which nobody sends.
    is_gathering: bool,
    /// How many there were when [`Self::may_grow`] was called last.
    before: usize,
    /// Whether nothing of what there is so far is still to be gathered.
    is_whole: bool,
}

impl Gathering {
    /// Gathers from now on: the caller sends.
    pub(super) fn begin(&mut self) {
        self.is_gathering = true;
    }

    /// Gathers these parts, or sends as much as possible if they are too large.
    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.is_whole = false;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if self.is_gathering && self.gathered.len() + length <= MOST_GATHERED {
            let room = (self.gathered.len() + length).next_power_of_two();
            self.gathered.reserve_exact(room - self.gathered.len());
            for part in parts {
                self.gathered.extend_from_slice(part);
            }
            return Poll::Ready(Ok(length));
        }
        loop {
            let first = IoSlice::new(&self.gathered[self.sent..]);
            let waiting = first.len();
            let mut all = [IoSlice::new(&[]); PARTS];
            all[0] = first;
            let count = parts.len().min(PARTS - 1);
            all[1..=count].copy_from_slice(&parts[..count]);
            let written = Pin::new(&mut self.socket)
                .poll_write_vectored(context, &all[usize::from(waiting == 0)..=count]);
            let written = ready!(self.note(context, written))?;
            if written > waiting || waiting == 0 {
                self.clear();
                return Poll::Ready(Ok(written - waiting));
            }
            self.sent += written;
        }
    }

    /// Notes that there is no more than was gathered.
    pub(super) fn flush(&mut self) {
        self.is_whole = true;
    }

    /// Whether requests that are read already may soon add more: some did since the last call.
    pub(super) fn may_grow(&mut self) -> bool {
        let before = mem::replace(&mut self.before, self.gathered.len());
        (before + 1..MOST_GATHERED / 2).contains(&self.gathered.len())
            && self.activity.may_have_input()
    }

    /// Sends what was gathered.
    pub(super) fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.gathered.len() {
            let unsent = &self.gathered[self.sent..];
            let written = Pin::new(&mut self.socket).poll_write(context, unsent);
            self.sent += ready!(self.note(context, written))?;
        }
        self.clear();
        if self.is_whole {
            self.activity.flushed();
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what was gathered, and then the end of the stream.
    pub(super) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn clear(&mut self) {
        (self.sent, self.before) = (0, 0);
        self.gathered.clear();
        self.gathered.shrink_to(KEPT);
    }

    fn note(
        &self,
        context: &Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => self.activity.blocked(),
            // The kernel takes at least a byte of a part that is not empty.
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(bytes)) => self.activity.sent(*bytes, context.waker()),
            Poll::Ready(Err(_)) => {}
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::{
        io::AsyncReadExt,
        net::{TcpListener, TcpStream, tcp::OwnedReadHalf},
    };

    use super::{
        super::activity::{CoarseClock, Phase},
        *,
    };

    async fn output() -> (Output, Arc<ConnectionActivity>, TcpStream, OwnedReadHalf) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).await.expect("connected");
        let (input, socket) = listener.accept().await.expect("accepted").0.into_split();
        let activity = Arc::new(ConnectionActivity::new(CoarseClock::default()));
        (Output::new(socket, Arc::clone(&activity)), activity, client, input)
    }

    async fn write(output: &Output, parts: &[&[u8]]) -> usize {
        let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        poll_fn(|context| output.lock().poll_write(context, &parts)).await.expect("written")
    }

    async fn send(output: &Output) {
        poll_fn(|context| output.lock().poll_send(context)).await.expect("sent");
    }

    async fn read(client: &mut TcpStream, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        client.read_exact(&mut bytes).await.expect("received");
        bytes
    }

    #[tokio::test]
    async fn what_is_gathered_leaves_when_it_is_sent() {
        let (output, activity, mut client, _input) = output().await;
        output.lock().begin();
        activity.begin_sending(None);
        for text in ["one ", "two ", "three"] {
            assert_eq!(
                write(&output, &[&text.as_bytes()[..1], &text.as_bytes()[1..]]).await,
                text.len()
            );
            output.lock().flush();
        }
        assert_eq!(activity.phase(), Phase::Sending);
        let early = client.try_read(&mut [0; 16]).expect_err("nothing was sent");
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
        send(&output).await;
        assert_eq!(activity.phase(), Phase::Idle);
        assert_eq!(read(&mut client, 13).await, b"one two three");
    }

    #[tokio::test]
    async fn a_large_part_leaves_at_once_after_what_was_gathered() {
        let (output, _, mut client, _input) = output().await;
        output.lock().begin();
        write(&output, &[b"before "]).await;
        let large = [b'x'; MOST_GATHERED];
        let mut written = 0;
        while written < large.len() {
            written += write(&output, &[&large[written..]]).await;
        }
        let received = read(&mut client, 7).await;
        assert_eq!(received, b"before ");
        send(&output).await;
        assert_eq!(read(&mut client, large.len()).await, large);
    }

    #[tokio::test]
    async fn a_handshake_writes_at_once() {
        let (output, _, mut client, _input) = output().await;
        write(&output, &[b"hello"]).await;
        assert_eq!(read(&mut client, 5).await, b"hello");
    }
}
