//! Records what each connection is doing, and since when, so that `open` can end slow and idle
//! ones.
//!
//! Time is a count of [`TICK`]s on a coarse clock: compared with a response, setting and clearing a
//! timer for every request is not cheap.
//!
//! Two callers report progress. Over HTTP/1 the stream reports what the kernel takes
//! ([`Activity::note_write`]), since a connection with a request sends nothing but responses. A
//! connection of HTTP/2 also sends other frames, so each response reports what the client takes
//! ([`Activity::note_part_taken`]). The version is known from the first request on; writes before
//! that belong to a TLS handshake, and count as no progress.
//!
//! This module ends no connection. Unit tests are below; tests/http/unread.rs and
//! tests/faults/overload/slow.rs use real clients.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{
            AtomicBool, AtomicU32,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
        },
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Bytes, HttpBody},
    http::Version,
};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::sync::Notify;

/// The length of a tick: clients are timed with this precision.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The time for which a connection cannot be evicted after an admitted request of a client.
const GRACE: Duration = Duration::from_secs(1);

/// The time for which a new connection cannot be evicted after the service has looked in vain for
/// its request. A flood of new connections can therefore take every place once in this time.
const GRACE_OF_NEW: Duration = Duration::from_millis(300);

/// The most bytes that a client may send between two answered requests: several times the largest
/// head and body.
const MOST_UNANSWERED: u32 = 256 * 1024;

/// The ticks since the listener started, from 1 on; all its connections share the count.
#[derive(Clone, Debug)]
pub(super) struct CoarseClock(Arc<AtomicU32>);

impl CoarseClock {
    pub(super) fn start() -> Self {
        Self(Arc::new(1.into()))
    }

    pub(super) fn tick(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Returns the time since that tick, rounded down: the tick had begun before.
    fn since(&self, tick: u32) -> Duration {
        TICK * self.now().wrapping_sub(tick).saturating_sub(1)
    }
}

/// The recent requests, reads and writes of a connection. Every time is a tick of `clock`.
#[derive(Debug)]
pub(super) struct Activity {
    clock: CoarseClock,
    /// When a request came, a response was ready, or the client took a part of one: the last of
    /// these.
    progress: AtomicU32,
    /// When the client last took a part of a response that it could not take at once; 0 is never.
    part_taken: AtomicU32,
    /// When a request of a client was last admitted or answered; 0 is never.
    admitted: AtomicU32,
    /// When a read first found nothing, so that the service has looked for the client's request:
    /// the grace period of a new connection begins. 0 is never.
    empty_read: AtomicU32,
    /// Bytes received since a request last came or was answered, or a client of HTTP/2 took a part
    /// of a large response.
    unanswered_bytes: AtomicU32,
    /// Requests that are being answered, without those that wait for more of their bodies.
    answering: AtomicU32,
    /// The version of HTTP; not set before the first request.
    version: OnceLock<Version>,
    /// Whether the kernel's send buffer is full over HTTP/1, because the client does not read.
    is_blocked: AtomicBool,
    unblocked: Notify,
    /// For each unsent response of HTTP/2, when the client last took a part of it. Entries of sent
    /// responses are dead, and removed with the next response.
    unsent: Mutex<Vec<Weak<AtomicU32>>>,
}

impl Activity {
    pub(super) fn new(clock: CoarseClock) -> Self {
        let now = clock.now();
        Self {
            clock,
            progress: now.into(),
            part_taken: 0.into(),
            admitted: 0.into(),
            empty_read: 0.into(),
            unanswered_bytes: 0.into(),
            answering: 0.into(),
            version: OnceLock::new(),
            is_blocked: false.into(),
            unblocked: Notify::new(),
            unsent: Mutex::default(),
        }
    }

    /// Lets the grace period begin at the next read that finds nothing: the service read nothing
    /// while the connection waited for its places.
    pub(super) fn restart_grace(&self) {
        self.empty_read.store(0, Relaxed);
    }

    /// Notes that a request of a client was admitted.
    pub(super) fn note_admitted(&self) {
        self.admitted.store(self.clock.now(), Relaxed);
    }

    /// Counts received bytes. Returns false if there were more than [`MOST_UNANSWERED`] without an
    /// answered request: frames of HTTP/2 that are no request have no other bound.
    pub(super) fn count_received(&self, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.unanswered_bytes.fetch_add(bytes, Relaxed) <= MOST_UNANSWERED
    }

    /// Counts a request as being answered until the result is dropped.
    pub(super) fn begin_answer(&self, version: Version) -> Answering<'_> {
        self.version.get_or_init(|| version);
        self.progressed();
        self.answering.fetch_add(1, Release);
        Answering { activity: self, began: self.clock.now() }
    }

    /// Notes progress: a TLS handshake, the head of a request, or a finished response.
    pub(super) fn progressed(&self) {
        self.progress.store(self.clock.now(), Relaxed);
        self.unanswered_bytes.store(0, Relaxed);
    }

    /// Returns whether no request is being answered, so that the next step is the client's.
    pub(super) fn waits_for_client(&self) -> bool {
        self.answering.load(Acquire) == 0
    }

    /// Returns the tick of the last admitted request of a client. `open` evicts connections with
    /// lower ticks first.
    pub(super) fn last_admitted(&self) -> u32 {
        self.admitted.load(Relaxed)
    }

    /// Returns whether the connection may be evicted: the next step is the client's, and the grace
    /// period is over. The grace period begins with the last admitted request, or with the last
    /// part that the client took of a large response; without an admitted request, with the first
    /// read that found nothing.
    pub(super) fn is_evictable(&self) -> bool {
        let (admitted, empty_read) = (self.admitted.load(Relaxed), self.empty_read.load(Relaxed));
        let (began, grace) = match (admitted, empty_read) {
            (0, 0) => return false,
            (0, empty_read) => (empty_read, GRACE_OF_NEW),
            (admitted, _) => (admitted.max(self.part_taken.load(Relaxed)), GRACE),
        };
        self.clock.since(began) >= grace && self.waits_for_client()
    }

    /// Notes that a read found nothing, so the client did not send its request with the connection.
    pub(super) fn note_empty_read(&self) {
        if self.empty_read.load(Relaxed) == 0 {
            self.empty_read.store(self.clock.now(), Relaxed);
        }
    }

    /// Returns the time since the last progress of the client.
    pub(super) fn idle_for(&self) -> Duration {
        self.clock.since(self.progress.load(Relaxed))
    }

    /// Returns for how long the client has taken nothing of a response; `None` if no response waits
    /// for it.
    pub(super) fn stalled_for(&self) -> Option<Duration> {
        if self.is_blocked.load(SeqCst) {
            return Some(self.idle_for());
        }
        let unsent = self.unsent();
        let unsent = unsent.iter().filter_map(Weak::upgrade);
        unsent.map(|taken| self.clock.since(taken.load(Relaxed))).max()
    }

    /// Notes whether the kernel took something of the last write, or its buffer was full
    /// (`would_block`). Only HTTP/1 counts here: with a request it sends nothing but responses.
    pub(super) fn note_write(&self, would_block: bool) {
        if self.version.get().is_none_or(|version| *version == Version::HTTP_2) {
            return;
        }
        if would_block {
            self.is_blocked.store(true, SeqCst);
            return;
        }
        self.progress.store(self.clock.now(), Relaxed);
        if self.is_blocked.load(SeqCst) {
            self.part_taken.store(self.clock.now(), Relaxed);
            self.is_blocked.store(false, SeqCst);
            self.unblocked.notify_one();
        }
    }

    /// Registers a response of HTTP/2, which counts as unsent until every clone of the result is
    /// dropped.
    pub(super) fn begin_response(&self) -> Arc<AtomicU32> {
        let taken = Arc::new(self.clock.now().into());
        let mut unsent = self.unsent();
        unsent.retain(|other| other.strong_count() > 0);
        unsent.push(Arc::downgrade(&taken));
        taken
    }

    /// Notes that the client took a part of a response of HTTP/2.
    pub(super) fn note_part_taken(&self, taken: &AtomicU32, has_more: bool) {
        let now = self.clock.now();
        taken.store(now, Relaxed);
        self.progress.store(now, Relaxed);
        if has_more {
            self.part_taken.store(now, Relaxed);
            // The client must send WINDOW_UPDATE frames to get more, so these bytes are not counted
            // against it.
            self.unanswered_bytes.store(0, Relaxed);
        }
    }

    fn unsent(&self) -> MutexGuard<'_, Vec<Weak<AtomicU32>>> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the kernel's buffer has room again. A client that pipelines requests and reads
    /// no responses gets no further answers, which would pile up in memory.
    pub(super) async fn unblocked(&self) {
        while self.is_blocked.load(SeqCst) {
            // One request waits, as HTTP/1 answers one after the other. A notice from before this
            // call is kept for it.
            self.unblocked.notified().await;
        }
    }
}

/// The body of a request, which suspends "being answered" while it waits for the client. The
/// connection keeps a clone, to discard the part that the handler did not read.
#[derive(Clone, Debug)]
pub(super) struct RequestBody(Arc<Mutex<BodyState>>);

#[derive(Debug)]
pub(super) struct BodyState {
    pub(super) body: Incoming,
    /// Whether the handler has polled the body, so that hyper has sent `100 Continue` if the client
    /// waits for it.
    pub(super) was_polled: bool,
    waits: bool,
    activity: Arc<Activity>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, activity: Arc<Activity>) -> Self {
        Self(Arc::new(Mutex::new(BodyState { body, was_polled: false, waits: false, activity })))
    }

    /// Returns the body if its end is unread and the handler has dropped it. Call it while the
    /// request still counts as being answered.
    pub(super) fn into_unread(self) -> Option<BodyState> {
        self.state().set_waiting(false);
        let state = Arc::into_inner(self.0)?.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        Some(state).filter(|state| !state.body.is_end_stream())
    }

    fn state(&self) -> MutexGuard<'_, BodyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyState {
    fn set_waiting(&mut self, waits: bool) {
        match (self.waits, waits) {
            (false, true) => drop(self.activity.answering.fetch_sub(1, Release)),
            (true, false) => drop(self.activity.answering.fetch_add(1, Release)),
            _ => {}
        }
        self.waits = waits;
    }
}

/// A client may reset the stream of HTTP/2 while the service waits for the body.
impl Drop for BodyState {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut state = self.state();
        state.was_polled = true;
        let frame = Pin::new(&mut state.body).poll_frame(context);
        state.set_waiting(frame.is_pending());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.state().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.state().body.size_hint()
    }
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub(super) struct Answering<'a> {
    activity: &'a Activity,
    began: u32,
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.activity.progressed();
        // If the request was admitted since it began, the grace period begins at its end.
        if self.activity.last_admitted() >= self.began {
            self.activity.note_admitted();
        }
        self.activity.answering.fetch_sub(1, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(clock: &CoarseClock, time: Duration) {
        (0..time.as_millis() / TICK.as_millis()).for_each(|_| clock.tick());
    }

    #[test]
    fn reader_of_a_large_response_keeps_its_place_while_it_reads() {
        let clock = CoarseClock::start();
        let activity = Activity::new(clock.clone());
        drop(activity.begin_answer(Version::HTTP_11));
        activity.note_admitted();
        for _ in 0..10 {
            activity.note_write(true);
            pass(&clock, GRACE);
            activity.note_write(false);
            assert!(!activity.is_evictable());
        }
        pass(&clock, GRACE + TICK);
        assert!(activity.is_evictable());
        // A response that the client takes at once does not extend the grace period.
        activity.note_write(false);
        assert!(activity.is_evictable());
    }

    #[test]
    fn client_that_waited_for_a_response_keeps_its_place_to_read_it() {
        let clock = CoarseClock::start();
        let activity = Activity::new(clock.clone());
        let answering = activity.begin_answer(Version::HTTP_11);
        activity.note_admitted();
        pass(&clock, 2 * GRACE);
        drop(answering);
        assert!(!activity.is_evictable());
        pass(&clock, GRACE + TICK);
        // A refused request does not extend the grace period.
        drop(activity.begin_answer(Version::HTTP_11));
        assert!(activity.is_evictable());
    }

    #[test]
    fn each_response_of_http2_is_timed_whatever_else_is_sent() {
        let clock = CoarseClock::start();
        let activity = Activity::new(clock.clone());
        drop(activity.begin_answer(Version::HTTP_2));
        let (stalled, read) = (activity.begin_response(), activity.begin_response());
        let seconds = Duration::from_secs;
        pass(&clock, seconds(20));
        activity.note_write(true);
        activity.note_write(false);
        activity.note_part_taken(&read, true);
        pass(&clock, seconds(10) + TICK);
        assert_eq!(activity.stalled_for(), Some(seconds(30)));
        drop(stalled);
        assert_eq!(activity.stalled_for(), Some(seconds(10)));
        drop(read);
        assert_eq!(activity.stalled_for(), None);
        activity.note_write(false);
        assert_eq!(activity.idle_for(), seconds(10));
    }
}
