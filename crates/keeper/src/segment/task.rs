//! Runs the task of all segment namespaces of a store: prepares the store, then reserves blocks for
//! the codes that need one, until it is stopped.
//!
//! A claim queues its code by the code's waker. The task runs one refill for each queued code
//! ([`refill`]), at most 64 at a time, and a refill retries until the store answers. Every 25 s the
//! task polls each namespace: its history, its managed codes, and whether the store still has their
//! blocks (`block_check.rs`). Every ten minutes it deletes old idempotency keys.
//!
//! The task issues no numbers. `refill.rs` and `plan.rs` decide what a refusal of the store means.
//! Poll [`Task::run`] to its end: only then does the task give unused numbers back. Tests:
//! `segments.rs`, `segment_status.rs` and `panics.rs` in `src/tests`.

use std::{sync::Arc, time::Duration};

use raindrop_core::{keeper_api::GiveBack, lease::Token};
use raindrop_store::{KEYS_AT_ONCE, KEYS_KEPT, NewSegment, UnusedNumbers, with_sources};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, sleep, timeout_at},
};
use tracing::Instrument as _;

use super::{
    block_check::check_blocks,
    code::Code,
    code_table::CodeTable,
    managed::POLL_EVERY,
    namespace::{Namespace, Purpose, SharedStore},
    record_of,
    refill::refill,
    strict::{Settled, StrictCode, settle},
};
use crate::support::{
    error::{KeeperError, LayoutError},
    observer::{KeeperTask, StoreOperation},
    random::{Attempts, LONGEST_PAUSE},
    status::{StoreFailure, UnavailableReason},
    tasks::catch_panic,
};

/// How often each process deletes old idempotency keys.
const DELETE_KEYS_EVERY: Duration = Duration::from_mins(10);
/// How many statements a process sends for that at a time.
const DELETIONS: u32 = 100;

/// Number of codes that are served at a time, including those that wait for a failing store.
const SERVED_AT_A_TIME: usize = 64;

pub(super) struct Task {
    namespaces: Vec<Arc<CodeTable>>,
    shared: Arc<SharedStore>,
    queue: mpsc::UnboundedReceiver<Arc<Code>>,
    /// The refills in progress. Each returns its code if the store does not have it any more.
    refills: JoinSet<Option<Arc<Code>>>,
    /// Codes that vanished from the store wait here, where they take up none of the refills.
    vanished: JoinSet<()>,
    /// The polls in progress.
    polls: JoinSet<()>,
    /// The deletion of old idempotency keys, if it is in progress.
    deletion: JoinSet<()>,
}

/// The result of giving numbers back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// How many numbers the store took back.
    pub returned: u64,
    /// How many numbers are lost: another node reserved meanwhile, or the store failed.
    pub lost: u64,
}

impl Drop for Task {
    /// Reports that the task has ended, even if its runtime drops it.
    fn drop(&mut self) {
        self.shared.report.send_modify(|report| report.ended = true);
        // Wakes claims that wait for blocks, which will not come.
        for code in self.namespaces.iter().flat_map(|codes| codes.all()) {
            code.reason.send_modify(|_| ());
        }
    }
}

impl Task {
    pub(super) fn new(
        namespaces: Vec<Arc<CodeTable>>,
        shared: Arc<SharedStore>,
        queue: mpsc::UnboundedReceiver<Arc<Code>>,
    ) -> Self {
        let (refills, vanished, polls) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        let deletion = JoinSet::new();
        Self { namespaces, shared, queue, refills, vanished, polls, deletion }
    }

    /// Runs until `stop` receives the deadline of the release, or its sender is dropped.
    pub(super) async fn run(
        mut self,
        mut stop: oneshot::Receiver<Instant>,
        failed: oneshot::Sender<Vec<KeeperError>>,
    ) -> GivenBack {
        let prepared = tokio::select! {
            biased;
            deadline = &mut stop => return self.stop(deadline.ok()).await,
            prepared = self.prepare() => prepared,
        };
        if let Err(errors) = prepared {
            // The receiver may be gone: not every caller waits for a failure.
            let _ = failed.send(errors);
            return self.stop(stop.await.ok()).await;
        }
        // Every code gets its first block before a client asks for it.
        for code in self.namespaces.iter().flat_map(|codes| codes.all()) {
            code.cursor.wake();
        }
        let mut poll_times = interval_at(Instant::now() + POLL_EVERY, POLL_EVERY);
        poll_times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut deletion_times = interval_at(Instant::now() + DELETE_KEYS_EVERY, DELETE_KEYS_EVERY);
        deletion_times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                deadline = &mut stop => return self.stop(deadline.ok()).await,
                Some(_) = self.polls.join_next() => {}
                _ = poll_times.tick(), if self.polls.is_empty() => {
                    for codes in &self.namespaces {
                        self.polls.spawn(poll(Arc::clone(codes)));
                    }
                }
                Some(_) = self.deletion.join_next() => {}
                _ = deletion_times.tick(), if self.deletion.is_empty() => {
                    let mut tables = self.namespaces.iter();
                    if let Some(codes) = tables.find(|codes| codes.has_strict_code()) {
                        self.deletion.spawn(delete_old_keys(Arc::clone(codes)));
                    }
                }
                Some(_) = self.vanished.join_next() => {}
                Some(served) = self.refills.join_next() => {
                    if let Ok(Some(code)) = served {
                        self.vanished.spawn(wake_later(code));
                    }
                }
                Some(code) = self.queue.recv(), if self.refills.len() < SERVED_AT_A_TIME => {
                    let namespace = &code.namespace;
                    let mut tables = self.namespaces.iter();
                    let codes = tables.find(|codes| Arc::ptr_eq(&codes.namespace, namespace));
                    let codes = codes.expect("every code is in a table of this task");
                    self.refills.spawn(serve(Arc::clone(codes), code));
                }
            }
        }
    }

    /// Creates tables, records and codes, however often the store fails.
    async fn prepare(&self) -> Result<(), Vec<KeeperError>> {
        let mut conflicts = Vec::new();
        for codes in &self.namespaces {
            let mut failures = Attempts::default();
            loop {
                match prepare_namespace(codes).await {
                    Ok(()) => {
                        codes.namespace.store_answered(&codes.namespace.refill_failures);
                        break;
                    }
                    Err(KeeperError::Store(error)) if !error.is_permanent() => {
                        codes.namespace.store_failed(&codes.namespace.refill_failures, &error);
                        let pause = failures.failed(&mut self.shared.random());
                        sleep(pause).await;
                    }
                    // Other namespaces may conflict, too. All conflicts are reported together.
                    Err(conflict @ KeeperError::Layout(_)) => {
                        conflicts.push(conflict);
                        break;
                    }
                    Err(permanent) => return Err(vec![permanent]),
                }
            }
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        self.shared.report.send_modify(|report| (report.prepared, report.failing) = (true, None));
        Ok(())
    }

    /// Seals every code. Gives unused numbers back within the deadline, if there is one.
    async fn stop(mut self, deadline: Option<Instant>) -> GivenBack {
        // A poll would take given-back numbers for numbers that the store lost.
        self.polls.shutdown().await;
        let mut given_back = GivenBack::default();
        let Some(deadline) = deadline else { return given_back };
        self.queue.close();
        // An aborted reservation loses its numbers.
        let ended = async { while self.refills.join_next().await.is_some() {} };
        let half = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        let _ = timeout_at(half, ended).await;
        self.refills.abort_all();

        let mut returning = JoinSet::new();
        for code in self.namespaces.iter().flat_map(|codes| codes.seal()) {
            let (unused, lost) = code.cursor.seal();
            code.set_reason(Some(UnavailableReason::ShuttingDown));
            given_back.lost += lost;
            if returning.len() >= SERVED_AT_A_TIME {
                note_returned(&mut given_back, &mut returning).await;
            }
            // The seal came first: a write that ends now gives its numbers to nobody.
            if let Some(left_over) = code.strict.as_ref().and_then(StrictCode::unissued) {
                let count = left_over.by / code.progression.increment();
                returning.spawn(async move {
                    let settled = async {
                        match &code.strict {
                            Some(strict) => settle(&code, strict).await,
                            None => Ok(Settled::Nothing),
                        }
                    };
                    let settled = timeout_at(deadline, settled).await;
                    (count, matches!(settled, Ok(Ok(Settled::Undone))))
                });
                continue;
            }
            let Some(unused) = unused else { continue };
            returning.spawn(async move {
                let returned = timeout_at(deadline, give_back(&code, unused)).await;
                (unused.count, returned.unwrap_or(false))
            });
        }
        while !returning.is_empty() {
            note_returned(&mut given_back, &mut returning).await;
        }
        given_back
    }
}

/// Waits until one give-back ends, and counts its numbers.
async fn note_returned(given_back: &mut GivenBack, returning: &mut JoinSet<(u64, bool)>) {
    match returning.join_next().await {
        Some(Ok((count, true))) => given_back.returned += count,
        Some(Ok((count, false))) => given_back.lost += count,
        // A panic was logged when it happened; how many numbers it lost is unknown.
        Some(Err(_)) | None => {}
    }
}

/// Gives numbers back. Returns whether the store took them.
async fn give_back(code: &Code, block: GiveBack) -> bool {
    let GiveBack { from, token: reserved, .. } = block;
    let (namespace, shared) = (&code.namespace, &code.namespace.shared);
    // In another epoch, later reservations of other nodes may be lost, so the store must refuse.
    let epoch = code.demand().epoch.unwrap_or(Token::UNUSED);
    let token = shared.random().fresh_token();
    let unused = UnusedNumbers { from, reserved, epoch, token };
    let call = shared.store.give_back(namespace.name(), &code.name, &unused);
    namespace.call(Purpose::Refill, StoreOperation::Reserve, call).await.unwrap_or_else(|error| {
        tracing::warn!(
            namespace = namespace.name(),
            code = code.name,
            error = with_sources(&error),
            "give-back failed: numbers lost"
        );
        false
    })
}

/// Reserves for a code until it has enough numbers, however often the store fails. A panic counts
/// as a failure: numbers that were reserved before it are lost, never issued twice. Returns the
/// code, still queued, if it vanished from the store.
async fn serve(codes: Arc<CodeTable>, code: Arc<Code>) -> Option<Arc<Code>> {
    let (namespace, shared) = (&code.namespace, &code.namespace.shared);
    let mut failures = Attempts::default();
    loop {
        let refilled = async {
            // A code that takes its place is queued by its own claims.
            let is_replaced = codes.replace_by_managed(&code).await?;
            if is_replaced { Ok(true) } else { refill(&code).await }
        };
        match catch_panic(refilled.instrument(code.refill_span())).await {
            Ok(Ok(was_asked)) => {
                code.note_failure(None);
                if was_asked {
                    namespace.store_answered(&namespace.refill_failures);
                }
                break;
            }
            Ok(Err(error)) => {
                code.note_failure(Some(StoreFailure::from(&error)));
                namespace.store_failed(&namespace.refill_failures, &error);
            }
            Err(panic) => {
                namespace.observer.step_panicked(KeeperTask::Refill);
                tracing::error!(
                    namespace = namespace.name(),
                    code = code.name,
                    panic,
                    "refill panicked"
                );
                let failure = StoreFailure::of_panic(&panic);
                code.note_failure(Some(failure.clone()));
                shared.report_failing(failure);
            }
        }
        let pause = failures.failed(&mut shared.random());
        sleep(pause).await;
    }
    let is_lost = *code.reason.borrow() == Some(UnavailableReason::StoreLost);
    if is_lost && code.demand().vanished.is_some() {
        return Some(code);
    }
    code.leave_queue();
    // Claims during the refill did not queue the code.
    let may_serve = code.reason.borrow().is_none() || code.strict.is_some() && code.is_used_up();
    if may_serve && code.needs_more() {
        code.cursor.wake();
    }
    None
}

/// Queues a code that vanished again after a pause. A node that is not ready gets no requests, so
/// no claim would.
async fn wake_later(code: Arc<Code>) {
    sleep(LONGEST_PAUSE).await;
    code.leave_queue();
    code.cursor.wake();
}

/// Follows the history of the store, reads the managed codes of a namespace, and checks those in
/// use, which takes longest. After a failure the node uses its earlier reads until the next poll.
async fn poll(codes: Arc<CodeTable>) {
    let namespace = &codes.namespace;
    let follow_refresh_and_check = async {
        let present = namespace.follow(Purpose::Poll, namespace.epoch().await).await?.epoch();
        codes.leave_other_epochs(present);
        let refreshed = codes.refresh(Purpose::Poll).await;
        let checked = check_blocks(&codes, present).await;
        refreshed.and(checked)
    };
    match catch_panic(follow_refresh_and_check).await {
        Ok(Ok(())) => namespace.store_answered(&namespace.poll_failures),
        Ok(Err(error)) => namespace.store_failed(&namespace.poll_failures, &error),
        Err(panic) => {
            namespace.observer.step_panicked(KeeperTask::Segments);
            tracing::error!(namespace = namespace.name(), panic, "poll of segment codes panicked");
        }
    }
}

/// Deletes old idempotency keys of all namespaces, piece by piece.
async fn delete_old_keys(codes: Arc<CodeTable>) {
    let namespace = &codes.namespace;
    for _ in 0..DELETIONS {
        let call = namespace.shared.store.delete_old_keys(KEYS_KEPT);
        match namespace.call(Purpose::Poll, StoreOperation::Reserve, call).await {
            Ok(KEYS_AT_ONCE..) => {}
            Ok(_) => return,
            Err(error) => {
                // The next try follows in ten minutes, and more rows than needed do no harm.
                let (namespace, error) = (namespace.name(), with_sources(&error));
                tracing::warn!(namespace, error, "old idempotency keys not deleted");
                return;
            }
        }
    }
}

async fn prepare_namespace(codes: &CodeTable) -> Result<(), KeeperError> {
    let namespace = &*codes.namespace;
    let Namespace { settings, shared, .. } = namespace;
    let store = &shared.store;
    let warnings = namespace.call(Purpose::Poll, StoreOperation::Prepare, store.prepare()).await?;
    namespace.observer.store_prepared(&warnings);
    for warning in warnings {
        tracing::warn!(
            namespace = settings.namespace,
            warning,
            "store may lose acknowledged writes"
        );
    }
    let recorded = namespace.recorded().await?.canonical;
    LayoutError::check(&settings.namespace, &record_of(&**store), &recorded)?;
    namespace.follow(Purpose::Poll, None).await?;
    namespace.call(Purpose::Poll, StoreOperation::Prepare, store.prepare_segments()).await?;
    let new = settings
        .codes
        .iter()
        .map(|(code, spec)| NewSegment { code: code.clone(), first: spec.first() });
    let new: Vec<NewSegment> = new.collect();
    let created = store.create_segments(&settings.namespace, &new);
    namespace.call(Purpose::Poll, StoreOperation::Prepare, created).await?;
    Ok(codes.refresh(Purpose::Poll).await?)
}
