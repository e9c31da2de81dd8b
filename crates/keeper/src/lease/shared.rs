//! The state that a namespace's task shares with its issuers.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
    time::Duration,
};

use raindrop_core::{clock::Clock, issue::Generator, layout::Layout, lease::OwnWrite};
use tokio::sync::{Notify, watch};

use crate::{
    lease::settings::LeaseTimes,
    support::{
        observer::Observer,
        status::{FailureLog, Status, UnavailableReason},
        tasks::KeeperRuntime,
    },
};

/// Shared by the task and every [`Issuer`](super::issuer::Issuer) of a namespace.
#[derive(Debug)]
pub(crate) struct KeeperState {
    pub(crate) namespace: String,
    pub(crate) lease: LeaseTimes,
    pub(crate) generator: Arc<Generator>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Arc<dyn Observer>,
    /// The keeper's latest status. Its fields `lease` and `codes` are empty here: an issuer fills
    /// them in when a caller reads the status. Subscribers are notified of every change that may let a refused
    /// claim succeed.
    pub(crate) report: watch::Sender<Status>,
    pub(crate) failures: FailureLog,
    pub(crate) runtime: KeeperRuntime,
    /// Notified by claims that need a renewal, and by [`Self::doubt`].
    pub(crate) wake_up: Arc<Notify>,
    /// The last acknowledged write of the held row, and the steady clock when the keeper judged the
    /// clocks for it.
    /// Only the lease's task sets it.
    pub(crate) own_write: Mutex<Option<(OwnWrite, Duration)>>,
    /// Whether a read of the row did not show that write, so that the task must read it at once.
    pub(crate) is_doubted: AtomicBool,
}

impl KeeperState {
    pub(crate) fn layout(&self) -> &Layout {
        self.generator.layout()
    }

    /// Returns the first position of the present tick.
    pub(crate) fn present_position(&self) -> u64 {
        let layout = self.layout();
        layout.first_position(layout.tick_clamped(self.clock.now_ms()))
    }

    /// Sets the reason why no ID can be issued. A change wakes waiting claims, and is logged if it
    /// concerns the store. A shutdown is final.
    pub(crate) fn set_reason(&self, reason: Option<UnavailableReason>) {
        use UnavailableReason::{ShuttingDown, StoreUnavailable};
        self.report.send_if_modified(|report| {
            if report.reason == reason || report.reason == Some(ShuttingDown) {
                return false;
            }
            match &reason {
                Some(StoreUnavailable(error)) => self.failures.failed(&self.namespace, error),
                // Other reasons say nothing about the store.
                Some(_) => {}
                None => self.failures.succeeded(&self.namespace),
            }
            report.reason = reason;
            true
        });
    }

    /// Records an acknowledged write of the held row, which was judged at `judged` by the steady
    /// clock.
    pub(crate) fn note_own_write(&self, write: OwnWrite, judged: Duration) {
        *self.last_own_write() = Some((write, judged));
    }

    /// Returns the last acknowledged write of the held row, and its age by the steady clock.
    /// Returns `None` without a lease, or until a resumed lease is renewed for the first time.
    pub(crate) fn own_write(&self) -> Option<(OwnWrite, Duration)> {
        self.generator.grant().filter(|grant| !grant.is_sealed())?;
        let (write, judged) = (*self.last_own_write())?;
        Some((write, self.clock.steady().saturating_sub(judged)))
    }

    fn last_own_write(&self) -> MutexGuard<'_, Option<(OwnWrite, Duration)>> {
        self.own_write.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the task read its row at once, because another read did not show its last write.
    pub(crate) fn doubt(&self) {
        self.is_doubted.store(true, Ordering::Release);
        self.wake_up.notify_one();
    }

    /// Returns whether there was a doubt, and clears it.
    pub(crate) fn take_doubt(&self) -> bool {
        self.is_doubted.swap(false, Ordering::AcqRel)
    }

    /// Wakes waiting claims because the grant or its limit changed, and clears the reason.
    pub(crate) fn announce_range(&self) {
        self.set_reason(None);
        self.announce();
    }

    /// Wakes waiting claims because the limit rose.
    pub(crate) fn announce(&self) {
        self.report.send_modify(|_| ());
    }
}

/// Wakes the keeper's task from inside a claim, which runs without a runtime.
struct NotifyWaker(Vec<Arc<Notify>>);

impl Wake for NotifyWaker {
    fn wake(self: Arc<Self>) {
        self.0.iter().for_each(|notify| notify.notify_one());
    }
}

pub(crate) fn waker<'a>(notified: impl IntoIterator<Item = &'a Arc<Notify>>) -> Waker {
    Waker::from(Arc::new(NotifyWaker(notified.into_iter().cloned().collect())))
}
