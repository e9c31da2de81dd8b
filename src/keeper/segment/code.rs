//! One code of a segment namespace.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Wake, Waker},
};

use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::shared::Namespace;
use crate::{
    core::segment::{SegmentCursor, SegmentSpec},
    keeper::{Observer, Trouble},
};

/// Codes that ask for a block.
pub(super) type Queue = mpsc::UnboundedSender<Arc<Code>>;

/// One code: its cursor, and what the task knows of its demand.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) namespace: Weak<Namespace>,
    pub(super) name: String,
    pub(super) spec: SegmentSpec,
    pub(super) cursor: SegmentCursor,
    /// Why no further block comes. Every block that is added is sent here too.
    pub(super) trouble: watch::Sender<Option<Trouble>>,
    demand: Mutex<Demand>,
    /// The code's next number in the store, as last seen.
    next: AtomicU64,
    queued: Arc<AtomicBool>,
    /// How many numbers the observer was told of.
    reported: AtomicU64,
}

/// What the next step is computed from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// The step of the last reservation; 0 before the first.
    pub(super) step: u64,
    /// When that was.
    pub(super) since: Option<Instant>,
    /// How many numbers were in hand just after it.
    pub(super) had: u64,
    /// How many numbers a waiting claim lacks.
    pub(super) missing: u64,
    /// When the store was last seen without the code.
    pub(super) vanished: Option<Instant>,
}

impl Code {
    pub(super) fn new(
        namespace: Weak<Namespace>,
        name: String,
        spec: SegmentSpec,
        queue: Queue,
    ) -> Arc<Self> {
        let queued = Arc::new(AtomicBool::new(false));
        Arc::new_cyclic(|code| {
            let bell = Bell { code: code.clone(), queued: Arc::clone(&queued), queue };
            Self {
                namespace,
                name,
                spec,
                cursor: SegmentCursor::new(spec.progression(), Waker::from(Arc::new(bell))),
                trouble: watch::Sender::new(None),
                demand: Mutex::new(Demand::default()),
                next: AtomicU64::new(spec.first()),
                queued,
                reported: AtomicU64::new(0),
            }
        })
    }

    pub(super) fn demand(&self) -> MutexGuard<'_, Demand> {
        self.demand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of the numbers that were handed out since the last time: counting each claim would
    /// cost as much as the claim.
    pub(super) fn report_issued(&self, observer: &dyn Observer) {
        let issued = self.cursor.handed_out();
        let before = self.reported.fetch_max(issued, Ordering::Relaxed);
        if issued > before {
            observer.ids_issued(issued - before);
        }
    }

    /// The next number that the store was last seen with.
    pub(super) fn last_seen(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The store was seen with this next number.
    pub(super) fn saw_next(&self, next: u64) {
        self.next.store(next, Ordering::Relaxed);
    }

    /// Which part of the code's numbers nobody has reserved yet, from 1 down to 0.
    #[expect(clippy::cast_precision_loss, reason = "a part of the whole needs no digits")]
    pub(super) fn unreserved(&self) -> f64 {
        let (first, end) = (self.spec.first(), self.spec.max + 1);
        let left = end.saturating_sub(self.next.load(Ordering::Relaxed));
        (left as f64 / end.saturating_sub(first).max(1) as f64).min(1.0)
    }

    /// Whether it was ever given a block.
    pub(super) fn had_block(&self) -> bool {
        self.demand().since.is_some()
    }

    /// Whether there are no numbers left, for ever.
    pub(super) fn is_used_up(&self) -> bool {
        *self.trouble.borrow() == Some(Trouble::NumbersUsedUp)
    }

    /// The code may be queued again. Whoever asked until now was dropped, so the caller looks at
    /// what is needed afterwards.
    pub(super) fn leave_queue(&self) {
        self.queued.store(false, Ordering::SeqCst);
    }

    pub(super) fn set_trouble(&self, trouble: Option<Trouble>) {
        self.trouble.send_modify(|present| {
            // Nothing gets better while shutting down.
            if *present != Some(Trouble::ShuttingDown) {
                *present = trouble;
            }
        });
    }
}

/// Queues a code from inside a claim, where there is no runtime to know of.
struct Bell {
    code: Weak<Code>,
    queued: Arc<AtomicBool>,
    queue: Queue,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst)
            && let Some(code) = self.code.upgrade()
        {
            // Without a task there are no further blocks, and claims say so.
            let _ = self.queue.send(code);
        }
    }
}
