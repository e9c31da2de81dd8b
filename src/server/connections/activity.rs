//! What each connection is doing, and for how long.
//!
//! Time is counted in ticks of a coarse clock: a timer for every request would cost a good part of
//! what a response costs; a tick costs each connection one comparison.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool, AtomicU8, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    task::{Poll, Waker},
    time::Duration,
};

use tokio::time::Instant;

use crate::server::unsent::Reservation;

/// The length of a tick, which is how exactly clients are timed.
pub(super) const TICK: Duration = Duration::from_secs(5);

/// Ticks that a connection may be idle: 75 s, more than the 60 s that load balancers keep
/// idle connections, so that they close first.
const IDLE: u32 = 15;

/// Ticks that a request's head may take from its first byte: 10 s.
const HEAD: u32 = 2;

/// Ticks that a client may take for any response: 30 s.
const SENDING: u32 = 6;

/// Bytes a second that a client must read beyond that: 2 KiB, the rate of a phone with poor
/// reception.
const LOWEST_RATE: u64 = 2 * 1024;

/// How long a client may read at any rate while memory for responses is scarce.
const READING_GRACE: Duration = Duration::from_secs(1);

/// Counts ticks, for every connection.
#[derive(Clone, Debug, Default)]
pub(super) struct CoarseClock(Arc<AtomicU32>);

impl CoarseClock {
    pub(super) fn tick(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// The number of ticks since the start.
    pub(super) fn now(&self) -> u32 {
        self.0.load(Relaxed)
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
    may_have_input: AtomicBool,
    /// Bytes that the kernel took since the response began.
    sent: AtomicU64,
    /// Whether the kernel takes no more, because the client does not read.
    is_blocked: AtomicBool,
    /// Whether the connection's task waits until the kernel takes more.
    is_held: AtomicBool,
    has_reserved: AtomicBool,
    is_evicted: AtomicBool,
    /// What the responses that are being sent have reserved.
    reserved: Mutex<Vec<Arc<Reservation>>>,
}

impl ConnectionActivity {
    pub(super) fn new(clock: CoarseClock) -> Self {
        let since = AtomicU32::new(clock.now());
        let phase = AtomicU8::new(Phase::Idle as u8);
        Self {
            clock,
            phase,
            since,
            had_client_request: false.into(),
            had_empty_read: false.into(),
            may_have_input: true.into(),
            sent: 0.into(),
            is_blocked: false.into(),
            is_held: false.into(),
            has_reserved: false.into(),
            is_evicted: false.into(),
            reserved: Mutex::default(),
        }
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
            Phase::Sending => {
                let earned = self.sent.load(Relaxed) / (LOWEST_RATE * TICK.as_secs());
                SENDING.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX))
            }
            Phase::Body | Phase::Answering => return None,
        };
        (self.full_ticks() >= most).then_some(phase)
    }

    pub(super) fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Acquire))]
    }

    /// Begins a phase.
    pub(super) fn enter(&self, phase: Phase) {
        // In this order, so that whoever sees the phase sees when it began.
        self.since.store(self.clock.now(), Relaxed);
        self.phase.store(phase as u8, Release);
    }

    /// Ticks that passed whole: the first one was under way.
    fn full_ticks(&self) -> u32 {
        let ticks = self.clock.now().wrapping_sub(self.since.load(Relaxed));
        ticks.saturating_sub(1)
    }

    /// Begins to send a response, which keeps this reserved.
    pub(super) fn begin_sending(&self, reservation: Option<&Arc<Reservation>>) {
        self.sent.store(0, Relaxed);
        self.enter(Phase::Sending);
        if self.has_reserved.load(Relaxed) || reservation.is_some() {
            let mut reserved = self.reserved();
            // The responses before it are written, or gathered but for a few kilobytes.
            retain_unfinished(&mut reserved);
            reserved.extend(reservation.map(Arc::clone));
            self.has_reserved.store(!reserved.is_empty(), Relaxed);
        }
    }

    /// Notes that the kernel took this many bytes, and wakes the task if it waits for that.
    pub(super) fn sent(&self, bytes: usize, task: &Waker) {
        self.sent.store(self.sent.load(Relaxed) + bytes as u64, Relaxed);
        if self.is_blocked() {
            self.is_blocked.store(false, Relaxed);
            if self.is_held.load(Relaxed) {
                self.is_held.store(false, Relaxed);
                task.wake_by_ref();
            }
        }
    }

    /// Notes that the kernel takes no more.
    pub(super) fn blocked(&self) {
        self.is_blocked.store(true, Relaxed);
    }

    /// Whether the kernel takes no more.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Relaxed)
    }

    /// Waits until the client reads: a client that sends requests and reads no responses is served
    /// no further.
    pub(super) async fn unblocked(&self) {
        if self.is_blocked() {
            poll_fn(|_| {
                if self.is_blocked() {
                    self.is_held.store(true, Relaxed);
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
        }
    }

    /// Notes that all was sent that there is so far: the whole response, unless its body has more.
    pub(super) fn flushed(&self) {
        if self.has_reserved.load(Relaxed) {
            let mut reserved = self.reserved();
            retain_unfinished(&mut reserved);
            if !reserved.is_empty() {
                return;
            }
            self.has_reserved.store(false, Relaxed);
        }
        self.advance(Phase::Sending, Phase::Idle);
    }

    /// Notes that the connection will be closed: it frees its memory when its task is next run.
    pub(super) fn begin_eviction(&self) {
        self.is_evicted.store(true, Relaxed);
    }

    /// Gives back what is reserved: the connection is closed, whoever still looks at its activity.
    pub(super) fn closed(&self) {
        self.reserved().clear();
    }

    /// How many bytes it has reserved, and how slowly its client reads, in milliseconds per
    /// kibibyte; none while it is given time.
    pub(super) fn slow_reading(&self, now: Instant) -> Option<(u64, u64)> {
        if !self.has_reserved.load(Relaxed) || self.is_evicted.load(Relaxed) {
            return None;
        }
        let reserved = self.reserved();
        let taken = now.saturating_duration_since(reserved.first()?.since);
        let size = reserved.iter().map(|reservation| reservation.size).sum();
        let taken_ms = u64::try_from(taken.as_millis()).unwrap_or(u64::MAX);
        let slowness = taken_ms / (1 + self.sent.load(Relaxed) / 1024);
        (taken >= READING_GRACE).then_some((size, slowness))
    }

    fn reserved(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Reservation>>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a read found nothing.
    pub(super) fn read_nothing(&self) {
        self.had_empty_read.store(true, Relaxed);
        self.may_have_input.store(false, Relaxed);
    }

    /// Notes that a read found something.
    pub(super) fn read_something(&self) {
        self.may_have_input.store(true, Relaxed);
        self.advance(Phase::Idle, Phase::Head);
    }

    /// Whether the last read found something, which may not be used up.
    pub(super) fn may_have_input(&self) -> bool {
        self.may_have_input.load(Relaxed)
    }

    /// Begins the phase `next` if this one is under way.
    pub(super) fn advance(&self, present: Phase, next: Phase) {
        if self.phase() == present {
            self.enter(next);
        }
    }
}

/// Keeps the reservations that a body keeps as well, because there is more of it.
fn retain_unfinished(reserved: &mut Vec<Arc<Reservation>>) {
    reserved.retain(|reservation| Arc::strong_count(reservation) > 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::unsent::UnsentBudget;

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
        assert_eq!(ticks_until_cut_off(&activity), (SENDING + 1, Phase::Sending));
    }

    #[test]
    fn a_response_that_is_written_reserves_nothing_once_the_next_begins() {
        let (budget, activity) =
            (UnsentBudget::new(1 << 20), ConnectionActivity::new(CoarseClock::default()));
        let reserve = |bytes| budget.reserve(bytes, true).expect("room");
        for bytes in [20_000, 30_000, 40_000] {
            let body = reserve(bytes);
            activity.begin_sending(body.as_ref());
            assert_eq!(budget.used(), bytes as u64);
        }
        activity.begin_sending(None);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_head_is_timed_from_its_first_byte_and_an_answer_from_its_last() {
        let activity = ConnectionActivity::new(CoarseClock::default());
        activity.advance(Phase::Idle, Phase::Head);
        (0..HEAD).for_each(|_| activity.clock.tick());
        activity.advance(Phase::Idle, Phase::Head);
        assert_eq!(ticks_until_cut_off(&activity), (1, Phase::Head));
        activity.enter(Phase::Sending);
        (0..SENDING).for_each(|_| activity.clock.tick());
        activity.advance(Phase::Sending, Phase::Sending);
        assert_eq!(ticks_until_cut_off(&activity), (SENDING + 1, Phase::Sending));
        activity.advance(Phase::Sending, Phase::Idle);
        assert!(!activity.waits_for_client());
        assert_eq!(ticks_until_cut_off(&activity), (IDLE + 1, Phase::Idle));
    }
}
