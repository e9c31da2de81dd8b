//! What all connections of a listener hear from it: that time passes, and that it stops.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

/// How often time passes.
pub(super) const BEAT: Duration = Duration::from_secs(5);

/// A timer for hyper that is as exact as [`BEAT`]. hyper sets one for every request's head, and a
/// timer of tokio's costs a good part of what an answer takes: this one is a comparison, which is
/// made whenever the connection is polled, as all are after each beat.
#[derive(Clone, Debug)]
pub(super) struct BeatTimer {
    began: Instant,
    beats: Arc<AtomicU32>,
}

impl BeatTimer {
    pub(super) fn new() -> Self {
        Self { began: tokio::time::Instant::now().into_std(), beats: Arc::default() }
    }

    /// Lets time pass. The caller sees to it that every connection is polled afterwards.
    pub(super) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }
}

impl Timer for BeatTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Deadline { timer: self.clone(), deadline })
    }

    fn now(&self) -> Instant {
        self.began + BEAT * self.beats.load(Ordering::Relaxed)
    }
}

struct Deadline {
    timer: BeatTimer,
    deadline: Instant,
}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.timer.now() >= self.deadline { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Sleep for Deadline {}
