//! How long a client may take. Time is counted in beats: a timer for every request would cost a
//! good part of what an answer takes, a beat costs each connection one look at a number.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// How often time passes; what is timed here is as exact as that.
pub(super) const BEAT: Duration = Duration::from_secs(5);

/// In beats, how long a connection may be idle: 75 s, more than the 60 s that load balancers keep
/// idle connections, so that they close first.
const IDLE: u32 = 15;

/// In beats, how long a request's head may take from its first byte: 10 s.
const HEAD: u32 = 2;

/// In beats, how long a client may take none of its answer: 30 s.
const STALLED: u32 = 6;

/// Counts beats, for every connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Heart(Arc<AtomicU32>);

impl Heart {
    pub(super) fn beat(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Nothing of the next request is there.
    Idle,
    /// A part of a request's head is there.
    Head,
    /// A request's head is there, and its body not yet. The time-out of requests ends that.
    Body,
    /// The request is being answered: how long that takes is not the client's business.
    Answering,
    /// The answer is being sent.
    Sending,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Idle, Self::Head, Self::Body, Self::Answering, Self::Sending];
}

/// Why a client is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooSlow {
    /// It asked for nothing for long.
    Idle,
    /// Its request does not get complete.
    Head,
    /// It does not take its answer.
    Stalled,
}

/// How far a connection is, and since when. Only its own task writes; others look.
#[derive(Debug)]
pub(super) struct Pace {
    heart: Heart,
    phase: AtomicU8,
    since: AtomicU32,
    asked: AtomicBool,
    kept_waiting: AtomicBool,
}

impl Pace {
    pub(super) fn new(heart: Heart) -> Self {
        let since = AtomicU32::new(heart.0.load(Relaxed));
        let phase = AtomicU8::new(Phase::Idle as u8);
        Self { heart, phase, since, asked: false.into(), kept_waiting: false.into() }
    }

    /// A request's head is there, and its body is to come.
    pub(super) fn reading_body(&self) {
        self.enter(Phase::Body);
    }

    /// A request is there.
    pub(super) fn answering(&self) {
        self.enter(Phase::Answering);
    }

    /// The request was one of a client who may ask.
    pub(super) fn asked(&self) {
        self.asked.store(true, Relaxed);
    }

    /// Whether a request is being answered.
    pub(super) fn is_answering(&self) -> bool {
        self.phase() == Phase::Answering
    }

    /// Its answer is there, but not sent.
    pub(super) fn sending(&self) {
        self.enter(Phase::Sending);
    }

    /// Whether a whole request of somebody who may ask ever came.
    pub(super) fn has_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    /// Whether it was looked for a request and none, or only a part of one, was there: a request
    /// that came with the connection may lie there unseen while the process is busy.
    pub(super) fn was_kept_waiting(&self) -> bool {
        self.kept_waiting.load(Relaxed)
    }

    /// Whether it waits for its client for a beat or longer.
    pub(super) fn waits_for_client(&self) -> bool {
        self.phase() != Phase::Answering && self.full_beats() >= 1
    }

    /// Whether the client must be cut off.
    pub(super) fn too_slow(&self) -> Option<TooSlow> {
        let (most, slow) = match self.phase() {
            Phase::Idle => (IDLE, TooSlow::Idle),
            Phase::Head => (HEAD, TooSlow::Head),
            Phase::Sending => (STALLED, TooSlow::Stalled),
            Phase::Body | Phase::Answering => return None,
        };
        (self.full_beats() >= most).then_some(slow)
    }

    fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Relaxed))]
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
        self.since.store(self.heart.0.load(Relaxed), Relaxed);
    }

    /// Beats that passed whole: the first one was under way.
    fn full_beats(&self) -> u32 {
        let beats = self.heart.0.load(Relaxed).wrapping_sub(self.since.load(Relaxed));
        beats.saturating_sub(1)
    }

    fn nothing_there(&self) {
        if !self.kept_waiting.load(Relaxed) {
            self.kept_waiting.store(true, Relaxed);
        }
    }

    fn received(&self) {
        if self.phase() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    fn sent(&self) {
        if self.phase() == Phase::Sending {
            self.enter(Phase::Sending);
        }
    }

    fn flushed(&self) {
        if self.phase() == Phase::Sending {
            self.enter(Phase::Idle);
        }
    }
}

/// A connection that tells its pace what comes and goes.
#[derive(Debug)]
pub(super) struct Paced {
    stream: TcpStream,
    pace: Arc<Pace>,
}

impl Paced {
    pub(super) fn new(stream: TcpStream, pace: Arc<Pace>) -> Self {
        Self { stream, pace }
    }

    fn wrote(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        self.pace.sent();
        Poll::Ready(written)
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) else {
            self.pace.nothing_there();
            return Poll::Pending;
        };
        read?;
        if buffer.filled().len() > before {
            self.pace.received();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when everything was written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.pace.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beats_until_cut_off(pace: &Pace) -> (u32, TooSlow) {
        for beats in 0..100 {
            if let Some(slow) = pace.too_slow() {
                return (beats, slow);
            }
            pace.heart.beat();
        }
        panic!("never cut off: {pace:?}");
    }

    #[test]
    fn each_phase_has_its_time() {
        let pace = Pace::new(Heart::default());
        assert_eq!(beats_until_cut_off(&pace), (IDLE + 1, TooSlow::Idle));
        pace.received();
        assert_eq!(beats_until_cut_off(&pace), (HEAD + 1, TooSlow::Head));
        pace.reading_body();
        (0..100).for_each(|_| pace.heart.beat());
        // The request's own time-out ends it; until then it is the first to make room.
        assert!(pace.too_slow().is_none() && pace.waits_for_client() && !pace.has_asked());
        pace.answering();
        (0..100).for_each(|_| pace.heart.beat());
        assert_eq!(pace.too_slow(), None);
        assert!(pace.is_answering() && !pace.has_asked() && !pace.waits_for_client());
        pace.asked();
        assert!(pace.has_asked());
        pace.sending();
        assert_eq!(beats_until_cut_off(&pace), (STALLED + 1, TooSlow::Stalled));
    }

    #[test]
    fn a_head_is_timed_from_its_first_byte_and_an_answer_from_its_last() {
        let pace = Pace::new(Heart::default());
        pace.received();
        (0..HEAD).for_each(|_| pace.heart.beat());
        pace.received();
        assert_eq!(beats_until_cut_off(&pace), (1, TooSlow::Head));
        pace.sending();
        (0..STALLED).for_each(|_| pace.heart.beat());
        pace.sent();
        assert_eq!(beats_until_cut_off(&pace), (STALLED + 1, TooSlow::Stalled));
        pace.flushed();
        assert!(!pace.waits_for_client());
        assert_eq!(beats_until_cut_off(&pace), (IDLE + 1, TooSlow::Idle));
    }
}
