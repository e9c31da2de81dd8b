//! What each connection is doing, and for how long.
//!
//! Time is counted in ticks of a coarse clock: a timer for every request would cost a good part of
//! what a response costs; a tick costs each connection one comparison.

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

/// The length of a tick, which is how exactly clients are timed.
pub(super) const TICK: Duration = Duration::from_secs(5);

/// Ticks that a connection may be idle: 75 s, more than the 60 s that load balancers keep
/// idle connections, so that they close first.
const IDLE: u32 = 15;

/// Ticks that a request's head may take from its first byte: 10 s.
const HEAD: u32 = 2;

/// Ticks in which a client may take none of its response: 30 s.
const STALLED: u32 = 6;

/// Counts ticks, for every connection.
#[derive(Clone, Debug, Default)]
pub(super) struct CoarseClock(Arc<AtomicU32>);

impl CoarseClock {
    pub(super) fn tick(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::server) enum Phase {
    /// Nothing of the next request was received.
    Idle,
    /// A part of a request's head was received.
    Head,
    /// A request's head was received, but not all of its body; `http.request_timeout` ends that.
    Body,
    /// The request is being answered, for which the client is not timed.
    Answering,
    /// The response is being sent.
    Sending,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Idle, Self::Head, Self::Body, Self::Answering, Self::Sending];
}

/// What a connection is doing, and since when. Only its own task writes; others read.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    clock: CoarseClock,
    phase: AtomicU8,
    since: AtomicU32,
    had_client_request: AtomicBool,
    had_empty_read: AtomicBool,
}

impl ConnectionActivity {
    pub(super) fn new(clock: CoarseClock) -> Self {
        let since = AtomicU32::new(clock.0.load(Relaxed));
        let phase = AtomicU8::new(Phase::Idle as u8);
        Self { clock, phase, since, had_client_request: false.into(), had_empty_read: false.into() }
    }

    /// The request was authorised.
    pub(super) fn had_client_request(&self) {
        self.had_client_request.store(true, Relaxed);
    }

    /// Whether it ever had an authorised request.
    pub(super) fn is_of_client(&self) -> bool {
        self.had_client_request.load(Relaxed)
    }

    /// Whether a read ever found nothing: before, a request that came with the connection may be
    /// unread because the process is busy.
    pub(super) fn had_empty_read(&self) -> bool {
        self.had_empty_read.load(Relaxed)
    }

    /// Whether it has waited for its client for a tick or longer.
    pub(super) fn waits_for_client(&self) -> bool {
        self.phase() != Phase::Answering && self.full_ticks() >= 1
    }

    /// The phase, if the client must be cut off because it takes too long.
    pub(super) fn overdue(&self) -> Option<Phase> {
        let phase = self.phase();
        let most = match phase {
            Phase::Idle => IDLE,
            Phase::Head => HEAD,
            Phase::Sending => STALLED,
            Phase::Body | Phase::Answering => return None,
        };
        (self.full_ticks() >= most).then_some(phase)
    }

    pub(super) fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Relaxed))]
    }

    /// Begins a phase.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
        self.since.store(self.clock.0.load(Relaxed), Relaxed);
    }

    /// Ticks that passed whole: the first one was under way.
    fn full_ticks(&self) -> u32 {
        let ticks = self.clock.0.load(Relaxed).wrapping_sub(self.since.load(Relaxed));
        ticks.saturating_sub(1)
    }

    fn read_nothing(&self) {
        if !self.had_empty_read.load(Relaxed) {
            self.had_empty_read.store(true, Relaxed);
        }
    }

    /// Begins the phase `next` if this one is under way.
    fn advance(&self, present: Phase, next: Phase) {
        if self.phase() == present {
            self.enter(next);
        }
    }
}

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

    /// Times the rest of the response from here, since the client took a part of it.
    fn wrote(&self, written: io::Result<usize>) -> io::Result<usize> {
        self.activity.advance(Phase::Sending, Phase::Sending);
        written
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
        Pin::new(&mut self.stream).poll_write(context, bytes).map(|written| self.wrote(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        written.map(|written| self.wrote(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when everything was written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.activity.advance(Phase::Sending, Phase::Idle);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks_until_cut_off(activity: &ConnectionActivity) -> (u32, Phase) {
        for ticks in 0..100 {
            if let Some(phase) = activity.overdue() {
                return (ticks, phase);
            }
            activity.clock.tick();
        }
        panic!("never cut off: {activity:?}");
    }

    #[test]
    fn each_phase_has_its_time() {
        let activity = ConnectionActivity::new(CoarseClock::default());
        assert_eq!(ticks_until_cut_off(&activity), (IDLE + 1, Phase::Idle));
        activity.advance(Phase::Idle, Phase::Head);
        assert_eq!(ticks_until_cut_off(&activity), (HEAD + 1, Phase::Head));
        activity.enter(Phase::Body);
        (0..100).for_each(|_| activity.clock.tick());
        // The request's own time-out ends it; until then it is the first to be evicted.
        assert!(
            activity.overdue().is_none() && activity.waits_for_client() && !activity.is_of_client()
        );
        activity.enter(Phase::Answering);
        (0..100).for_each(|_| activity.clock.tick());
        assert_eq!(activity.overdue(), None);
        assert!(
            activity.phase() == Phase::Answering
                && !activity.is_of_client()
                && !activity.waits_for_client()
        );
        activity.had_client_request();
        assert!(activity.is_of_client());
        activity.enter(Phase::Sending);
        assert_eq!(ticks_until_cut_off(&activity), (STALLED + 1, Phase::Sending));
    }

    #[test]
    fn a_head_is_timed_from_its_first_byte_and_an_answer_from_its_last() {
        let activity = ConnectionActivity::new(CoarseClock::default());
        activity.advance(Phase::Idle, Phase::Head);
        (0..HEAD).for_each(|_| activity.clock.tick());
        activity.advance(Phase::Idle, Phase::Head);
        assert_eq!(ticks_until_cut_off(&activity), (1, Phase::Head));
        activity.enter(Phase::Sending);
        (0..STALLED).for_each(|_| activity.clock.tick());
        activity.advance(Phase::Sending, Phase::Sending);
        assert_eq!(ticks_until_cut_off(&activity), (STALLED + 1, Phase::Sending));
        activity.advance(Phase::Sending, Phase::Idle);
        assert!(!activity.waits_for_client());
        assert_eq!(ticks_until_cut_off(&activity), (IDLE + 1, Phase::Idle));
    }
}
