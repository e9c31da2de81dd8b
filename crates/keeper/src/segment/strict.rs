//! Issues numbers of strict codes.
//!
//! The claims of a code wait in a queue. [`write`] reserves exactly the numbers of those that wait,
//! in one write of the store, and serves them in the order of their arrival. Claims that come
//! meanwhile wait for the next write. So an answer that came before a request began has a smaller
//! number, whichever nodes gave them. Claims whose callers gave up before the write get no number.
//!
//! Numbers that nobody got are undone before the next write; why that issues none twice is argued in
//! `core/segment/strict.rs`. If they cannot be undone, the log says so: they are a gap.
//!
//! Claims with an idempotency key take further steps before and after the reservation
//! (`keyed.rs`).
//!
//! It does not retry after an error: `task.rs` does, and calls [`write`] for one write of
//! a code at a time. A claim waits for at most `max_wait`. Tests: `src/tests/strict.rs`.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use raindrop_core::{
    issue::Count,
    segment::{Block, Numbers, StrictWrites, Unissued},
};
use raindrop_store::{Reservation, StoreError, Undo};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::{
    code::Code,
    handle::issue_error,
    keyed::{self, IdempotencyKey, KeyedClaims, KeyedNumber, Keys},
    namespace::Purpose,
    planted,
    refill::{ReservedBlock, Wanted, add_block, log_outcome, observe, reserve},
};
use crate::support::{
    error::IssueError,
    observer::StoreOperation,
    status::{StoreFailure, UnavailableReason},
};

/// The pause while another process issues the number of the only key that waits.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// The claims that wait for numbers of a strict code, and its last write.
#[derive(Debug, Default)]
pub(super) struct StrictCode {
    waiting: Mutex<VecDeque<Waiting>>,
    writes: Mutex<StrictWrites>,
    pub(super) keyed: KeyedClaims,
}

/// A claim that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) count: u64,
    pub(super) key: Option<String>,
    pub(super) answer: oneshot::Sender<Result<Answer, UnavailableReason>>,
}

impl Waiting {
    /// Returns whether the claim needs no number: its caller gave up. A repeated request needs the
    /// number of a key that this process has claimed.
    fn is_over(&self) -> bool {
        self.answer.is_closed() && self.key.is_none()
    }
}

/// What a claim gets.
#[derive(Debug)]
pub(super) enum Answer {
    Numbers(Served),
    Keyed(KeyedNumber),
}

/// Numbers on their way to a claim. If it is dropped before the claim takes them, the log says that
/// they are a gap.
#[derive(Debug)]
pub(super) struct Served {
    numbers: Option<Numbers>,
    namespace: String,
    code: String,
}

impl Served {
    fn take(mut self) -> Option<Numbers> {
        self.numbers.take()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let Some(mut numbers) = self.numbers.take() else { return };
        let (count, first) = (numbers.len(), numbers.next().map(|first| first.get()));
        let (namespace, code) = (&self.namespace, &self.code);
        tracing::info!(
            namespace,
            code,
            first,
            count,
            "numbers of a strict code lost: the caller gave up"
        );
    }
}

impl StrictCode {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writes(&self) -> MutexGuard<'_, StrictWrites> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a claim waits.
    pub(super) fn has_claims(&self) -> bool {
        self.waiting().iter().any(|claim| !claim.is_over()) || self.keyed.has_claims()
    }

    /// Lets claims wait for numbers.
    pub(super) fn wait(&self, claims: impl IntoIterator<Item = Waiting>) {
        self.waiting().extend(claims);
    }

    /// Returns the keys for which numbers will be reserved.
    pub(super) fn keys_being_reserved(&self) -> HashSet<String> {
        self.waiting().iter().filter_map(|claim| claim.key.clone()).collect()
    }

    /// Notes that the last numbers of a reservation are not issued.
    pub(super) fn returned(&self, numbers: Unissued) {
        self.writes().returned(numbers);
    }

    /// Notes a reservation before it is sent.
    pub(super) fn sends(&self, reservation: &Reservation) {
        let Reservation { step: by, token: reserved, epoch, .. } = *reservation;
        self.writes().sends(Unissued { by, reserved, epoch });
    }

    /// Notes that the store refused the reservation.
    pub(super) fn refused(&self) {
        self.writes().refused();
    }

    /// Returns how many numbers nobody got, with those between the code's own.
    pub(super) fn unissued(&self) -> Option<Unissued> {
        self.writes().to_undo()
    }

    /// Removes the claims whose callers gave up. Returns how many wait, and for how many numbers.
    fn joined(&self) -> (usize, u64) {
        let mut waiting = self.waiting();
        waiting.retain(|claim| !claim.is_over());
        (waiting.len(), waiting.iter().map(|claim| claim.count).sum())
    }

    /// Takes the first claims out of the queue.
    fn take(&self, claims: usize) -> Vec<Waiting> {
        let mut waiting = self.waiting();
        let claims = claims.min(waiting.len());
        waiting.drain(..claims).collect()
    }
}

impl Code {
    /// Claims numbers of a strict code.
    pub(super) async fn claim_strictly(
        &self,
        strict: &StrictCode,
        count: Count,
    ) -> Result<Numbers, IssueError> {
        let (answer, answered) = oneshot::channel();
        let claim = Waiting { count: count.most().into(), key: None, answer };
        match self.answer_to(strict, claim, answered).await? {
            Answer::Numbers(served) => Ok(served.take().expect("only this claim takes them")),
            Answer::Keyed(_) => unreachable!("the claim has no key"),
        }
    }

    /// Claims the number of a key. Every claim with this key gets the same one.
    pub(super) async fn claim_keyed(
        &self,
        strict: &StrictCode,
        key: &IdempotencyKey,
    ) -> Result<KeyedNumber, IssueError> {
        let (answer, answered) = oneshot::channel();
        let claim = Waiting { count: 1, key: Some(key.to_string()), answer };
        match self.answer_to(strict, claim, answered).await? {
            Answer::Keyed(number) => Ok(number),
            Answer::Numbers(_) => unreachable!("the claim has a key"),
        }
    }

    /// Puts a claim into its queue, and waits for the answer.
    async fn answer_to(
        &self,
        strict: &StrictCode,
        claim: Waiting,
        mut answered: oneshot::Receiver<Result<Answer, UnavailableReason>>,
    ) -> Result<Answer, IssueError> {
        let max_wait = self.namespace.settings.max_wait;
        let deadline = Instant::now() + max_wait;
        let mut changes = self.reason.subscribe();
        let has_key = claim.key.is_some();
        let reason = changes.borrow_and_update().clone().filter(|it| !may_repeat(has_key, it));
        // Once claims have waited in vain for `max_wait`, further ones fail at once.
        if let Some(reason) = reason.or_else(|| self.failing_for(max_wait)) {
            // The task finds out whether the reason still holds.
            self.cursor.wake();
            return Err(issue_error(reason));
        }
        match claim.key {
            Some(_) => strict.keyed.push(claim),
            None => strict.wait([claim]),
        }
        self.cursor.wake();
        let served = async {
            loop {
                tokio::select! {
                    biased;
                    served = &mut answered => return served.ok(),
                    // The code lives as long as this claim, so the channel is open.
                    _ = changes.changed() => {
                        let reason = changes.borrow_and_update().clone();
                        let reason = reason.filter(|reason| !may_repeat(has_key, reason));
                        if let Some(reason) = reason.or_else(|| self.failing_for(max_wait)) {
                            return Some(Err(reason));
                        }
                    }
                }
            }
        };
        let runtime = &self.namespace.shared.runtime;
        let served = match runtime.timeout_at(deadline, served).await {
            Some(served @ Some(Ok(_))) => served,
            // The answer may have come just now. After the close none comes any more.
            ended => {
                answered.close();
                answered.try_recv().ok().or(ended.flatten())
            }
        };
        match served {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(reason)) => Err(issue_error(reason)),
            None => {
                let reason = self.reason.borrow().clone();
                let late = || {
                    let kind = "no number came in time";
                    UnavailableReason::StoreUnavailable(StoreFailure::of_kind(kind))
                };
                let reason = reason.or_else(|| self.failing_for(Duration::ZERO));
                Err(issue_error(reason.unwrap_or_else(late)))
            }
        }
    }
}

/// Returns whether a claim with a key may get its number although the code issues no further one.
const fn may_repeat(has_key: bool, reason: &UnavailableReason) -> bool {
    has_key
        && matches!(reason, UnavailableReason::NumbersUsedUp | UnavailableReason::NumbersSkipped)
}

/// Answers the keys that have a number, of a code that has no further ones. The other claims find
/// the reason in the code. Returns whether the store was called.
pub(super) async fn repeat(code: &Code, strict: &StrictCode) -> Result<bool, StoreError> {
    keyed::finish(code, strict).await?;
    let keys = keyed::claim(code, strict).await?;
    drop(strict.take(usize::MAX));
    if keys == Keys::Busy {
        sleep(BUSY_PAUSE).await;
    }
    Ok(keys != Keys::None)
}

/// Serves the claims that wait with one write. Returns whether the store was called.
///
/// Steps, in this order:
/// 1. Finish the keys of an earlier write, and undo what it left over.
/// 2. Claim the keys that wait.
/// 3. See which claims wait, and reserve their numbers. After an error they wait for the next try.
/// 4. Note what they get, and give it to them; to those with keys after the store has their texts.
/// 5. Undo what is left over: the numbers of callers that gave up during the write.
pub(super) async fn write(code: &Code, strict: &StrictCode) -> Result<bool, StoreError> {
    keyed::finish(code, strict).await?;
    let settled = settle(code, strict).await?;
    let keys = keyed::claim(code, strict).await?;
    let (claims, count) = strict.joined();
    if claims == 0 && keys != Keys::None {
        if keys == Keys::Busy {
            sleep(BUSY_PAUSE).await;
        }
        return Ok(true);
    }
    if claims == 0 {
        // The caller has found that a code that vanished is back.
        if *code.reason.borrow() == Some(UnavailableReason::StoreLost) {
            code.set_reason(None);
        }
        if code.failing_for(Duration::ZERO).is_none() {
            return Ok(settled != Settled::Nothing);
        }
        // Claims that failed at once left only the question whether the store answers again.
        code.namespace.read_row(&code.name).await?;
        return Ok(true);
    }
    if planted::serves_from_hand(count, code.cursor.left())
        && strict.keys_being_reserved().is_empty()
    {
        give(code, strict.take(claims));
        return Ok(true);
    }
    let step = planted::to_reserve(count);
    let by = step.saturating_mul(code.progression.increment());
    let outcome = reserve(code, Wanted { step, by }).await;
    log_outcome(code, 0, count, &outcome);
    observe(code, &outcome);
    let Some(reserved) = outcome? else {
        // The claims find the reason in the code.
        drop(strict.take(claims));
        return Ok(true);
    };
    serve(code, strict, claims, &reserved);
    keyed::finish(code, strict).await?;
    settle(code, strict).await?;
    Ok(true)
}

/// Gives the numbers of a reservation to the first claims, in their order, and the last numbers to
/// those with keys. A claim that is too large for the last numbers of a code gets none.
fn serve(code: &Code, strict: &StrictCode, claims: usize, reserved: &ReservedBlock) {
    let Block { first, end, token } = reserved.block;
    let progression = code.progression;
    let mut left = progression.index_at(end) - progression.index_at(first);
    let (mut served, mut keyed, mut issued) = (Vec::new(), Vec::new(), 0);
    for claim in strict.take(claims) {
        if claim.is_over() {
            continue;
        }
        if claim.count > left {
            // The caller may have given up meanwhile.
            let _ = claim.answer.send(Err(UnavailableReason::NumbersUsedUp));
            continue;
        }
        left -= claim.count;
        if claim.key.is_some() {
            keyed.push(claim);
        } else {
            issued += claim.count;
            served.push(claim);
        }
    }
    let increment = progression.increment();
    let for_keys = keyed.len() as u64 * increment;
    let issued = planted::to_keep(issued * increment, end - first - for_keys);
    strict.writes().acknowledged(issued + for_keys);
    let after = first + issued;
    // Only what is issued becomes a block of this process.
    if !served.is_empty() {
        let block = Block { first, end: after, token };
        add_block(code, &ReservedBlock { block, ..*reserved });
        give(code, served);
    }
    if !keyed.is_empty() {
        let block = Block { first: after, end: after + for_keys, token };
        strict.keyed.reserved(code, ReservedBlock { block, ..*reserved }, keyed);
    }
}

/// Gives claims the numbers that were just reserved for them.
fn give(code: &Code, claims: Vec<Waiting>) {
    for Waiting { count, answer, .. } in claims {
        // A code that was retired or shut down issues nothing more.
        let Ok(numbers) = code.cursor.claim(count) else { return };
        let (namespace, name) = (code.namespace.name().to_owned(), code.name.clone());
        // If the caller has given up meanwhile, dropping them writes the line of the log.
        let served = Served { numbers: Some(numbers), namespace, code: name };
        let _ = answer.send(Ok(Answer::Numbers(served)));
    }
}

/// What became of numbers that nobody got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// There were none. The store was not called.
    Nothing,
    /// They are the next numbers again.
    Undone,
    /// They may be a gap.
    Gap,
}

/// Undoes numbers that nobody got.
pub(super) async fn settle(code: &Code, strict: &StrictCode) -> Result<Settled, StoreError> {
    let Some(Unissued { by, reserved, epoch }) = strict.unissued() else {
        return Ok(Settled::Nothing);
    };
    let (namespace, shared) = (&code.namespace, &code.namespace.shared);
    let token = shared.random().fresh_token();
    let undo = Undo { by, reserved, epoch, token };
    let call = shared.store.undo(namespace.name(), &code.name, &undo);
    let is_undone = namespace.call(Purpose::Refill, StoreOperation::Reserve, call).await?;
    strict.writes().settled();
    let (name, count) = (&code.name, by / code.progression.increment());
    if is_undone {
        let mut demand = code.demand();
        demand.store_next = demand.last_block_end;
        drop(demand);
        tracing::info!(
            namespace = namespace.name(),
            code = name,
            count,
            "numbers of a strict code undone"
        );
        return Ok(Settled::Undone);
    }
    // Another process wrote since, the reservation never arrived or arrives later, or an earlier
    // undo took place without an answer.
    tracing::warn!(
        namespace = namespace.name(),
        code = name,
        count,
        "numbers of a strict code may be a gap"
    );
    Ok(Settled::Gap)
}
