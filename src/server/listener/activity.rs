//! What each connection is doing, and for how long.
//!
//! Time is counted in ticks of a coarse clock: a timer for every request would cost a good part of
//! what a response costs.

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

/// The length of a tick, which is how exactly clients are timed.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// How long a connection is safe after a request of a client.
const GRACE: Duration = Duration::from_secs(1);

/// How long a new connection is not closed for another, and at least until the service has looked for
/// its request. A flood of new connections can therefore take every place once in this time.
const GRACE_OF_NEW: Duration = Duration::from_millis(300);

/// The most bytes that a client may send without a request that is answered: several times a head
/// and a body.
const MOST_UNANSWERED: u32 = 256 * 1024;

/// Counts ticks, for every connection, from one on.
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

    /// How much time has passed since that tick; at least as much, since it was under way.
    fn since(&self, tick: u32) -> Duration {
        TICK * self.now().wrapping_sub(tick).saturating_sub(1)
    }
}

/// What a connection is doing, and since when.
#[derive(Debug)]
pub(in crate::server) struct Activity {
    clock: CoarseClock,
    /// When a request came or a response was ready last, or the client took a part of one.
    progress: AtomicU32,
    /// When the client took a part of a large response last; 0 is never.
    reading: AtomicU32,
    /// When a request of a client was let in last; 0 is never.
    served: AtomicU32,
    /// From when on a new one is safe for a while.
    begun: AtomicU32,
    had_empty_read: AtomicBool,
    /// Bytes that were received since a request was answered last.
    unanswered: AtomicU32,
    /// How many requests are being answered, without those that wait for more of their bodies.
    answering: AtomicU32,
    /// Unknown until the first request.
    version: OnceLock<Version>,
    /// Whether the kernel takes no more of what HTTP/1 sends, because the client does not read.
    is_blocked: AtomicBool,
    unblocked: Notify,
    /// The responses of HTTP/2, by when the client took a part last; those that it has taken are
    /// gone.
    unsent: Mutex<Vec<Weak<AtomicU32>>>,
}

impl Activity {
    pub(super) fn new(clock: CoarseClock) -> Self {
        let now = clock.now();
        Self {
            clock,
            progress: now.into(),
            reading: 0.into(),
            served: 0.into(),
            begun: now.into(),
            had_empty_read: false.into(),
            unanswered: 0.into(),
            answering: 0.into(),
            version: OnceLock::new(),
            is_blocked: false.into(),
            unblocked: Notify::new(),
            unsent: Mutex::default(),
        }
    }

    /// From now on it is read, as a new one: before, it had to wait for its places.
    pub(super) fn begins(&self) {
        self.begun.store(self.clock.now(), Relaxed);
    }

    /// A request of a client was let in.
    pub(in crate::server) fn serves_client(&self) {
        self.served.store(self.clock.now(), Relaxed);
    }

    /// Bytes were received. Returns whether a client may send so many without a request that is
    /// answered: frames of HTTP/2 have no other bound.
    pub(super) fn received(&self, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.unanswered.fetch_add(bytes, Relaxed) <= MOST_UNANSWERED
    }

    /// A request of this version is being answered, until the result is dropped.
    pub(super) fn answer(&self, version: Version) -> Answering<'_> {
        self.version.get_or_init(|| version);
        self.advanced();
        self.answering.fetch_add(1, Release);
        Answering { activity: self, begun: self.clock.now() }
    }

    /// The client did its part: a handshake, or the head of a request.
    pub(super) fn advanced(&self) {
        self.progress.store(self.clock.now(), Relaxed);
        self.unanswered.store(0, Relaxed);
    }

    /// Whether the connection waits for its client, not the client for the service.
    pub(super) fn waits_for_client(&self) -> bool {
        self.answering.load(Acquire) == 0
    }

    /// When a request of a client was let in last: connections with lower numbers are ended first.
    pub(super) fn last_served(&self) -> u32 {
        self.served.load(Relaxed)
    }

    /// Whether it may be ended to make room: it waits for its client, who came, was served or read
    /// a large response some time ago.
    pub(super) fn can_go(&self) -> bool {
        let is_due = match self.served.load(Relaxed) {
            0 => {
                let begun = self.begun.load(Relaxed);
                self.had_empty_read.load(Relaxed) && self.clock.since(begun) >= GRACE_OF_NEW
            }
            served => self.clock.since(served.max(self.reading.load(Relaxed))) >= GRACE,
        };
        is_due && self.waits_for_client()
    }

    /// A read found nothing: the client has not sent its request together with the connection.
    pub(super) fn read_nothing(&self) {
        self.had_empty_read.store(true, Relaxed);
    }

    /// For how long the client has done nothing that counts: taken a part of a response, or sent
    /// the whole head of a request.
    pub(super) fn idle_for(&self) -> Duration {
        self.clock.since(self.progress.load(Relaxed))
    }

    /// For how long the client has taken nothing of a response that it is sent; `None` if it is
    /// sent none.
    pub(super) fn stalled_for(&self) -> Option<Duration> {
        if self.is_blocked.load(SeqCst) {
            return Some(self.idle_for());
        }
        let unsent = self.unsent();
        let unsent = unsent.iter().filter_map(Weak::upgrade);
        unsent.map(|taken| self.clock.since(taken.load(Relaxed))).max()
    }

    /// The kernel takes no more, or took something: the progress of HTTP/1, which sends nothing
    /// but responses once it has a request.
    pub(super) fn wrote(&self, is_blocked: bool) {
        if self.version.get().is_none_or(|version| *version == Version::HTTP_2) {
            return;
        }
        if is_blocked {
            self.is_blocked.store(true, SeqCst);
            return;
        }
        self.progress.store(self.clock.now(), Relaxed);
        if self.is_blocked.load(SeqCst) {
            self.reading.store(self.clock.now(), Relaxed);
            self.is_blocked.store(false, SeqCst);
            self.unblocked.notify_waiters();
        }
    }

    /// A response of HTTP/2 is about to be sent; it is unsent until every clone of the result is
    /// dropped.
    pub(super) fn begin_response(&self) -> Arc<AtomicU32> {
        let taken = Arc::new(self.clock.now().into());
        let mut unsent = self.unsent();
        unsent.retain(|other| other.strong_count() > 0);
        unsent.push(Arc::downgrade(&taken));
        taken
    }

    /// The client took a part of a response of HTTP/2, and perhaps more follows.
    pub(super) fn took_part(&self, taken: &AtomicU32, has_more: bool) {
        let now = self.clock.now();
        taken.store(now, Relaxed);
        self.progress.store(now, Relaxed);
        if has_more {
            self.reading.store(now, Relaxed);
            // To take more, the client sends what enlarges its windows.
            self.unanswered.store(0, Relaxed);
        }
    }

    fn unsent(&self) -> MutexGuard<'_, Vec<Weak<AtomicU32>>> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the client reads: one that sends requests and reads no responses is served no
    /// further, because what it is sent would pile up.
    pub(super) async fn unblocked(&self) {
        loop {
            // Before the look: a notice in between must not be missed.
            let unblocked = self.unblocked.notified();
            if !self.is_blocked.load(SeqCst) {
                return;
            }
            unblocked.await;
        }
    }
}

/// The body of a request: while more of it is waited for, the request is not being answered. Its
/// connection keeps a clone, for what nobody reads.
#[derive(Clone, Debug)]
pub(super) struct RequestBody(Arc<Mutex<Reading>>);

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) body: Incoming,
    /// Whether any of it was asked for.
    pub(super) is_asked_for: bool,
    waits: bool,
    activity: Arc<Activity>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, activity: Arc<Activity>) -> Self {
        Self(Arc::new(Mutex::new(Reading { body, is_asked_for: false, waits: false, activity })))
    }

    /// What nobody has read, if there is anything. To be called while the request still counts as
    /// being answered.
    pub(super) fn into_unread(self) -> Option<Reading> {
        self.reading().set_waiting(false);
        let reading = Arc::into_inner(self.0)?.into_inner();
        let reading = reading.unwrap_or_else(PoisonError::into_inner);
        Some(reading).filter(|reading| !reading.body.is_end_stream())
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn set_waiting(&mut self, waits: bool) {
        match (self.waits, waits) {
            (false, true) => drop(self.activity.answering.fetch_sub(1, Release)),
            (true, false) => drop(self.activity.answering.fetch_add(1, Release)),
            _ => {}
        }
        self.waits = waits;
    }
}

/// A client may reset a stream of HTTP/2 while it is waited for.
impl Drop for Reading {
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
        let mut reading = self.reading();
        reading.is_asked_for = true;
        let frame = Pin::new(&mut reading.body).poll_frame(context);
        reading.set_waiting(frame.is_pending());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.reading().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.reading().body.size_hint()
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Answering<'a> {
    activity: &'a Activity,
    begun: u32,
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.activity.advanced();
        // A client that was let in is served until now.
        if self.activity.last_served() >= self.begun {
            self.activity.serves_client();
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
    fn who_reads_a_large_response_keeps_its_place_while_it_reads() {
        let clock = CoarseClock::start();
        let activity = Activity::new(clock.clone());
        drop(activity.answer(Version::HTTP_11));
        activity.serves_client();
        for _ in 0..10 {
            activity.wrote(true);
            pass(&clock, GRACE);
            activity.wrote(false);
            assert!(!activity.can_go());
        }
        pass(&clock, GRACE + TICK);
        assert!(activity.can_go());
        // A small response is no reason to stay.
        activity.wrote(false);
        assert!(activity.can_go());
    }

    #[test]
    fn who_waited_for_a_response_keeps_its_place_to_read_it() {
        let clock = CoarseClock::start();
        let activity = Activity::new(clock.clone());
        let answering = activity.answer(Version::HTTP_11);
        activity.serves_client();
        pass(&clock, 2 * GRACE);
        drop(answering);
        assert!(!activity.can_go());
        pass(&clock, GRACE + TICK);
        // One that is refused is not served.
        drop(activity.answer(Version::HTTP_11));
        assert!(activity.can_go());
    }

    #[test]
    fn each_response_of_http2_is_timed_whatever_else_is_sent() {
        let clock = CoarseClock::start();
        let activity = Activity::new(clock.clone());
        drop(activity.answer(Version::HTTP_2));
        let (stalled, read) = (activity.begin_response(), activity.begin_response());
        let seconds = Duration::from_secs;
        pass(&clock, seconds(20));
        activity.wrote(true);
        activity.wrote(false);
        activity.took_part(&read, true);
        pass(&clock, seconds(10) + TICK);
        assert_eq!(activity.stalled_for(), Some(seconds(30)));
        drop(stalled);
        assert_eq!(activity.stalled_for(), Some(seconds(10)));
        drop(read);
        assert_eq!(activity.stalled_for(), None);
        activity.wrote(false);
        assert_eq!(activity.idle_for(), seconds(10));
    }
}
