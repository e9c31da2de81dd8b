//! One code of a segment namespace.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Wake, Waker},
    time::Duration,
};

use raindrop_core::{
    issue::ClaimError,
    keeper_api::SegmentCursor,
    lease::Token,
    segment::{CodeSettings, Progression, SegmentSpec, TextForm},
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tracing::Span;

use super::{
    namespace::{Failing, Namespace},
    strict::StrictCode,
};
use crate::support::{
    observer::SPANS,
    status::{StoreFailure, UnavailableReason},
};

/// How long a code counts as unserved after a claim that got no numbers. A refused client may retry
/// late.
const UNSERVED_FOR: Duration = Duration::from_mins(1);

/// Sends codes that need a block to the task.
pub(super) type RefillQueue = mpsc::UnboundedSender<Arc<Code>>;

/// One code: its cursor, and what the task needs to know about its demand.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) namespace: Arc<Namespace>,
    pub(super) name: String,
    /// The numbers that it issues. They never change.
    pub(super) progression: Progression,
    current: Mutex<Current>,
    /// Whether its numbers are written in a form. Requests for plain numbers need no lock then.
    has_text: AtomicBool,
    pub(super) cursor: SegmentCursor,
    /// The claims of a strict code; `None` for any other. It never changes.
    pub(super) strict: Option<StrictCode>,
    /// The reason why no further block comes. Its subscribers are also notified of every added
    /// block.
    pub(super) reason: watch::Sender<Option<UnavailableReason>>,
    demand: Mutex<Demand>,
    /// Why and since when the store fails to reserve for this code. Reservations for other codes
    /// may succeed meanwhile.
    failing: Mutex<Option<Failing>>,
    queued: Arc<AtomicBool>,
    /// The span of the claim that queued the code last.
    asked_by: Mutex<Option<Span>>,
    /// How many numbers were reported to the observer.
    reported: AtomicU64,
}

/// The settings of a code that operators may change while it is in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    pub(super) spec: SegmentSpec,
    pub(super) origin: Origin,
}

/// The origin of a code's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The configuration.
    Configured,
    /// The store, where operators keep them.
    Managed,
    /// The defaults: a client asked for the code before it existed, and its first reservation
    /// creates it.
    OnDemand { client: Option<u64> },
}

/// The code's demand, and its row in the store, as far as the task knows them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// The code's next number in the store, as last seen.
    pub(super) store_next: u64,
    /// The step of the last reservation; 0 before the first.
    pub(super) step: u64,
    /// When that reservation was made.
    pub(super) refilled_at: Option<Instant>,
    /// How many reserved numbers were left just after it.
    pub(super) in_hand_after_refill: u64,
    /// One past the last number of the last block; 0 before the first.
    pub(super) last_block_end: u64,
    /// The epoch in which the last block was reserved.
    pub(super) epoch: Option<Token>,
    /// How many numbers a waiting claim lacks.
    pub(super) claim_lacks: u64,
    /// How many numbers were handed out at the last refill.
    pub(super) handed_out_before: u64,
    /// When claims last lacked numbers and none was served, because each needed more than were
    /// left.
    pub(super) unserved_at: Option<Instant>,
    /// How many numbers were handed out at the last check of the code's row.
    pub(super) handed_out_at_check: u64,
    /// When the store was last seen not to have the code.
    pub(super) vanished: Option<Instant>,
}

impl Code {
    pub(super) fn new(
        namespace: Arc<Namespace>,
        name: &str,
        current: Current,
        queue: RefillQueue,
    ) -> Arc<Self> {
        let spec = current.spec;
        let queued = Arc::new(AtomicBool::new(false));
        Arc::new_cyclic(|code| {
            let waker = RefillWaker { code: code.clone(), queued: Arc::clone(&queued), queue };
            Self {
                namespace,
                name: name.to_owned(),
                progression: spec.progression(),
                current: Mutex::new(current),
                has_text: AtomicBool::new(spec.text.is_some()),
                cursor: SegmentCursor::new(spec.progression(), Waker::from(Arc::new(waker))),
                strict: spec.strict.then(StrictCode::default),
                reason: watch::Sender::new(None),
                demand: Mutex::new(Demand { store_next: spec.first(), ..Demand::default() }),
                failing: Mutex::default(),
                asked_by: Mutex::default(),
                queued,
                reported: AtomicU64::new(0),
            }
        })
    }

    pub(super) fn demand(&self) -> MutexGuard<'_, Demand> {
        self.demand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failing(&self) -> MutexGuard<'_, Option<Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the code's present settings.
    pub(super) fn current(&self) -> Current {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the code's present specification.
    pub(super) fn spec(&self) -> SegmentSpec {
        self.current().spec
    }

    /// Returns the form in which its numbers are written.
    pub(super) fn text_form(&self) -> Option<TextForm> {
        self.has_text.load(Ordering::Acquire).then(|| self.spec().text).flatten()
    }

    /// Takes over the settings that operators keep in the store, which have the same progression.
    /// Returns whether they are new.
    pub(super) fn manage(&self, CodeSettings { spec, is_retired }: CodeSettings) -> bool {
        let fresh = Current { spec, origin: Origin::Managed };
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, fresh);
        self.has_text.store(spec.text.is_some(), Ordering::Release);
        drop(current);
        if is_retired {
            return self.retire();
        }
        if before.spec == spec && before.origin == Origin::Managed {
            return false;
        }
        // With the new settings there may be numbers again.
        if self.is_used_up() || self.was_not_created() {
            self.set_reason(None);
            self.cursor.wake();
        }
        true
    }

    /// Stops issuing for good. Returns `false` if the code was retired before.
    fn retire(&self) -> bool {
        if self.is_retired() {
            return false;
        }
        // First, so that a claim that finds the cursor sealed also finds the reason.
        let retired = ClaimError::RetiredCode(self.name.clone());
        self.set_reason(Some(UnavailableReason::CodeRefused(retired)));
        self.report_issued();
        // Reserved numbers that are left are lost.
        self.cursor.seal();
        true
    }

    /// Reports the numbers issued since the last call. Reporting each claim would cost as much as
    /// the claim.
    pub(super) fn report_issued(&self) {
        let issued = self.cursor.handed_out();
        let before = self.reported.fetch_max(issued, Ordering::Relaxed);
        if issued > before {
            self.namespace.observer.ids_issued(issued - before);
        }
    }

    /// Returns the share of numbers that no node has reserved yet, from 1 down to 0.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no exact digits")]
    pub(super) fn unreserved(&self) -> f64 {
        let spec = self.spec();
        let (first, end) = (spec.first(), spec.max + 1);
        let left = end.saturating_sub(self.demand().store_next);
        (left as f64 / end.saturating_sub(first).max(1) as f64).min(1.0)
    }

    /// Returns whether a block was ever reserved.
    pub(super) fn had_block(&self) -> bool {
        self.demand().refilled_at.is_some()
    }

    /// Returns whether clients asked for the code before it existed, and no block was reserved yet.
    pub(super) fn is_yet_to_begin(&self) -> bool {
        matches!(self.current().origin, Origin::OnDemand { .. }) && !self.had_block()
    }

    /// Returns whether another code must take this one's place for these settings: its claims under
    /// way would get other numbers, numbers that their requests do not expect to be texts, or numbers
    /// in another order.
    pub(super) fn must_be_replaced_by(&self, spec: &SegmentSpec) -> bool {
        let Current { spec: present, origin } = self.current();
        let is_on_demand = matches!(origin, Origin::OnDemand { .. });
        self.progression != spec.progression()
            || present.strict != spec.strict
            || is_on_demand && present.text != spec.text
    }

    /// Takes over what another code of this name, which is sealed, knows of its last block, before
    /// this one reserves: if the store loses that block, the next reservation shows it.
    pub(super) fn remember_last_block(&self, replaced: &Self) {
        let Demand { last_block_end, epoch, .. } = *replaced.demand();
        let mut demand = self.demand();
        (demand.last_block_end, demand.epoch) = (last_block_end, epoch);
    }

    /// Ends the code, which the table lost to another or must not have: `Starting` or
    /// `UnreadableSettings`.
    pub(super) fn seal_for(&self, reason: UnavailableReason) {
        // First, so that a claim that finds the cursor sealed also finds the reason.
        self.set_reason(Some(reason));
        self.cursor.seal();
    }

    /// Returns whether no numbers are left, which is permanent.
    pub(super) fn is_used_up(&self) -> bool {
        matches!(
            *self.reason.borrow(),
            Some(UnavailableReason::NumbersUsedUp | UnavailableReason::NumbersSkipped)
        )
    }

    /// Returns whether the code's reservations fail.
    pub(super) fn is_failing(&self) -> bool {
        self.failing().is_some()
    }

    /// Returns whether claims lacked numbers within the last minute and none was served since.
    pub(super) fn serves_no_claim(&self) -> bool {
        let demand = self.demand();
        demand.unserved_at.is_some_and(|at| at.elapsed() < UNSERVED_FOR)
            && self.cursor.handed_out() == demand.handed_out_before
    }

    /// Returns whether the store failed over since the last block was reserved, so that the block's
    /// reservation may be lost.
    pub(super) async fn has_failed_over(&self) -> bool {
        let before = self.demand().epoch;
        before.is_some() && before != self.namespace.epoch().await
    }

    /// Returns whether an operator has retired the code.
    pub(super) fn is_retired(&self) -> bool {
        is_retirement(self.reason.borrow().as_ref())
    }

    fn was_not_created(&self) -> bool {
        matches!(*self.reason.borrow(), Some(UnavailableReason::CodeRefused(_)))
    }

    /// Gives up the reserved numbers that are left if they are not of this epoch.
    pub(super) fn leave_epoch(&self, present: Token) {
        if self.demand().epoch.is_some_and(|epoch| epoch != present) {
            self.cursor.give_up();
        }
    }

    /// Records how a reservation failed; `None` once the store answered.
    pub(super) fn note_failure(&self, failure: Option<StoreFailure>) {
        let mut failing = self.failing();
        *failing = failure.map(|error| Failing::again(error, failing.as_ref()));
    }

    /// Returns how the code's reservations, or those of all codes, have failed for at least this
    /// long.
    pub(super) fn failing_for(&self, duration: Duration) -> Option<UnavailableReason> {
        let failing = self.failing().clone();
        let own = failing.and_then(|failing| failing.reason_after(duration));
        own.or_else(|| self.namespace.shared.failing_for(duration))
    }

    /// Makes the span of a refill, below that of the claim which asked for it.
    pub(super) fn refill_span(&self) -> Span {
        let asked_by = self.asked_by.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (namespace, code) = (self.namespace.name(), &self.name);
        let parent = asked_by.as_ref().and_then(Span::id);
        tracing::debug_span!(target: SPANS, parent: parent, "refill", namespace, code)
    }

    /// Returns whether claims wait for numbers that the task has to reserve.
    pub(super) fn needs_more(&self) -> bool {
        self.strict.as_ref().map_or_else(|| self.cursor.needs_more(), StrictCode::has_claims)
    }

    /// Lets the code be queued again. Wake-ups until now were dropped, so the caller must check the
    /// demand afterwards.
    pub(super) fn leave_queue(&self) {
        self.queued.store(false, Ordering::SeqCst);
    }

    /// Sets the reason why no further block comes, and wakes waiting claims. A shutdown is final;
    /// until then, so is a retirement, or what took the code out of the table.
    pub(super) fn set_reason(&self, reason: Option<UnavailableReason>) {
        let shut_down = Some(UnavailableReason::ShuttingDown);
        self.reason.send_modify(|present| {
            let is_final = *present == shut_down
                || is_retirement(present.as_ref())
                || is_removal(present.as_ref());
            if !is_final || reason == shut_down {
                *present = reason;
            }
        });
    }
}

const fn is_retirement(reason: Option<&UnavailableReason>) -> bool {
    matches!(reason, Some(UnavailableReason::CodeRefused(ClaimError::RetiredCode(_))))
}

/// Returns whether this reason is one of [`Code::seal_for`].
const fn is_removal(reason: Option<&UnavailableReason>) -> bool {
    matches!(reason, Some(UnavailableReason::Starting | UnavailableReason::UnreadableSettings))
}

/// Queues a code from inside a claim, which runs without a runtime.
struct RefillWaker {
    code: Weak<Code>,
    queued: Arc<AtomicBool>,
    queue: RefillQueue,
}

impl Wake for RefillWaker {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst)
            && let Some(code) = self.code.upgrade()
        {
            // The span lives on in it: a refill below one that has ended could not be recorded.
            let asked_by = Some(Span::current());
            *code.asked_by.lock().unwrap_or_else(PoisonError::into_inner) = asked_by;
            // If the task has ended, no block comes, and claims report that.
            let _ = self.queue.send(code);
        }
    }
}
