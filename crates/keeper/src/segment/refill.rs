//! Reserves the next block of a code.
//!
//! [`refill`] decides whether the code needs a block, reserves one, and adds it to the code's
//! cursor. If the store refuses, [`Plan`] adapts the next try: to another epoch, to the end of the
//! numbers, or to a missing row. A block below the end of this process's last one is dropped: the
//! store was rolled back, or a fail-over lost more than the gap skips.
//!
//! It neither waits nor retries after an error: `task.rs` does. After `Ok`, the code's `reason`
//! says whether further blocks can come. The caller runs at most one refill for each code at a
//! time. Tests: `refill/tests.rs`; `segments.rs` and `segment_failovers.rs` in `src/tests`.

use raindrop_core::{
    lease::Token,
    segment::{Block, CodeRow, StepRule},
};
use raindrop_store::{Reservation, Reserved, StoreError, with_sources};
use tokio::time::Instant;

use super::{
    code::{Code, Current, Demand, Origin},
    namespace::Purpose,
    plan::Plan,
    strict,
};
use crate::support::{
    observer::{RefillOutcome, StoreOperation},
    random::LONGEST_PAUSE,
    status::UnavailableReason,
};

/// How many times a reservation is tried while other nodes reserve or the epoch changes.
const RESERVE_TRIES: u32 = 8;

/// Reserves a block if the code needs one. Returns whether the store was called.
pub(super) async fn refill(code: &Code) -> Result<bool, StoreError> {
    let claim_lacks = note_claims(code);
    // While one of these reasons holds, claims do not call the store in vain. Only a code that the
    // store lost may come back.
    let reason = code.reason.borrow().clone();
    match reason {
        // The keys of a strict code keep their numbers.
        Some(UnavailableReason::NumbersUsedUp | UnavailableReason::NumbersSkipped)
            if let Some(strict) = &code.strict =>
        {
            return strict::repeat(code, strict).await;
        }
        Some(
            UnavailableReason::NumbersUsedUp
            | UnavailableReason::NumbersSkipped
            | UnavailableReason::CodeRefused(_)
            | UnavailableReason::Starting
            | UnavailableReason::UnreadableSettings,
        ) => {
            return Ok(false);
        }
        Some(UnavailableReason::StoreLost) => match is_back(code).await? {
            Some(true) => {}
            looked => return Ok(looked.is_some()),
        },
        _ => {}
    }
    if let Some(strict) = &code.strict {
        return strict::write(code, strict).await;
    }
    let left = code.cursor.left();
    if claim_lacks == 0 && left > code.demand().step {
        return Ok(false);
    }
    let demand = *code.demand();
    let step = next_step(code, &demand, left);
    let by = step.max(demand.claim_lacks).saturating_mul(code.progression.increment());
    let outcome = reserve(code, Wanted { step, by }).await;
    log_outcome(code, left, claim_lacks, &outcome);
    observe(code, &outcome);
    if let Some(reserved) = outcome? {
        add_block(code, &reserved);
    }
    Ok(true)
}

/// Counts a refill by what became of it.
pub(super) fn observe(code: &Code, outcome: &Result<Option<ReservedBlock>, StoreError>) {
    code.namespace.observer.segment_refilled(match outcome {
        Ok(Some(_)) => RefillOutcome::Done,
        Ok(None) => RefillOutcome::Refused,
        Err(_) => RefillOutcome::Failed,
    });
}

/// Logs what became of a refill, and why it was made.
pub(super) fn log_outcome(
    code: &Code,
    left: u64,
    lacking: u64,
    outcome: &Result<Option<ReservedBlock>, StoreError>,
) {
    let (namespace, code_name) = (code.namespace.name(), &code.name);
    match outcome {
        Ok(Some(ReservedBlock { block, step, .. })) => tracing::debug!(
            namespace,
            code = code_name,
            first = block.first,
            end = block.end,
            step,
            left,
            lacking,
            "block reserved"
        ),
        Ok(None) => {
            let reason = code.reason.borrow().as_ref().map(ToString::to_string);
            tracing::debug!(namespace, code = code_name, reason, "no block reserved");
        }
        Err(error) => {
            let error = with_sources(error);
            tracing::debug!(namespace, code = code_name, error, "refill failed");
        }
    }
}

/// Notes what claims took and lacked since the last refill. Returns the largest number that one of
/// them lacked.
fn note_claims(code: &Code) -> u64 {
    let mut demand = code.demand();
    let (lacks, handed_out) = (code.cursor.take_missing(), code.cursor.handed_out());
    if handed_out > demand.handed_out_before {
        demand.unserved_at = None;
    } else if lacks > 0 {
        demand.unserved_at = Some(Instant::now());
    }
    demand.handed_out_before = handed_out;
    demand.claim_lacks = demand.claim_lacks.max(lacks);
    demand.claim_lacks
}

/// Adds a reserved block to the code's cursor.
pub(super) fn add_block(code: &Code, reserved: &ReservedBlock) {
    let ReservedBlock { block, step, epoch } = reserved;
    code.leave_epoch(*epoch);
    // Held until the cursor and the demand have the block: whoever seals the cursor, to let another
    // code take its place, reads the last block from the demand.
    let mut demand = code.demand();
    if let Err(error) = code.cursor.add(block, *step) {
        drop(demand);
        let namespace = code.namespace.name();
        tracing::error!(namespace, code = code.name, %error, "block refused");
        code.set_reason(Some(UnavailableReason::StoreLost));
        return;
    }
    let in_hand_after_refill = code.cursor.left();
    *demand = Demand {
        step: *step,
        refilled_at: Some(Instant::now()),
        in_hand_after_refill,
        last_block_end: block.end,
        epoch: Some(*epoch),
        claim_lacks: 0,
        unserved_at: None,
        vanished: None,
        ..*demand
    };
    drop(demand);
    code.set_reason(None);
}

/// The size of a reservation.
pub(super) struct Wanted {
    /// The step of the code.
    pub(super) step: u64,
    /// How many numbers to reserve, with those between the code's own.
    pub(super) by: u64,
}

/// A block that the store reserved.
#[derive(Debug)]
pub(super) struct ReservedBlock {
    pub(super) block: Block,
    /// The step with which the store reserved it.
    pub(super) step: u64,
    /// The epoch in which the store reserved it.
    pub(super) epoch: Token,
}

/// Reserves the next block. Returns `None` if there is none, and sets the code's reason.
pub(super) async fn reserve(
    code: &Code,
    Wanted { step, by }: Wanted,
) -> Result<Option<ReservedBlock>, StoreError> {
    let demand = *code.demand();
    let (namespace, namespace_name) = (&code.namespace, code.namespace.name());
    let Current { spec, origin } = code.current();
    // The first reservation of a code creates it on demand. A later one does so only in a new epoch,
    // whose beginning may have lost the row, and begins above the gap, as another process would.
    let begins = demand.refilled_at.is_none() || code.has_failed_over().await;
    let mut creation = match origin {
        Origin::OnDemand { client } if begins => namespace.begin_creation(client).await?.map(Some),
        _ => Ok(None),
    };
    let may_create = matches!(creation, Ok(Some(_)));
    let rule = namespace.settings.gap_rule();
    let mut plan =
        Plan::new(spec, rule, namespace.follow(Purpose::Refill, None).await?, by, may_create);
    plan.last_block = demand.epoch.map(|epoch| (epoch, demand.last_block_end));
    for _ in 0..RESERVE_TRIES {
        let token = namespace.shared.random().fresh_token();
        let fits = match call_reserve(code, &plan.reservation(token)).await? {
            Reserved::From(first) => {
                if let Ok(Some(creation)) = &mut creation
                    && first == spec.first()
                {
                    creation.done();
                }
                let block = plan.block(first, token);
                code.demand().store_next = block.end;
                if plan.is_free(&block) {
                    let epoch = plan.history.epoch();
                    return Ok(Some(ReservedBlock { block, step, epoch }));
                }
                let is_rolled_back = plan.shows_rollback();
                let cause = if is_rolled_back {
                    "the store went back"
                } else {
                    "a fail-over lost more numbers than the gap skips"
                };
                let (first, held) = (block.first, demand.last_block_end);
                tracing::error!(
                    namespace = namespace_name,
                    code = code.name,
                    first,
                    held,
                    "{cause}"
                );
                if is_rolled_back {
                    plan.enter(
                        namespace
                            .begin_epoch_after_loss(Purpose::Refill, plan.history.epoch())
                            .await?,
                    );
                    continue;
                }
                let row = CodeRow { next: block.end, step: plan.by, epoch: plan.history.epoch() };
                plan.adapt(&row)
            }
            Reserved::Refused(row) => {
                code.demand().store_next = row.next;
                plan.adapt(&row)
            }
            Reserved::NoSuchCode if plan.create() => true,
            Reserved::NoSuchCode
                if let Err(refused) = &creation
                    && demand.refilled_at.is_none() =>
            {
                namespace.creations.refuse(&code.name);
                code.set_reason(Some(UnavailableReason::CodeRefused(refused.clone())));
                return Ok(None);
            }
            Reserved::NoSuchCode => {
                tracing::error!(
                    namespace = namespace_name,
                    code = code.name,
                    "code vanished from the store"
                );
                code.demand().vanished = Some(Instant::now());
                code.set_reason(Some(UnavailableReason::StoreLost));
                return Ok(None);
            }
            Reserved::OtherEpoch => {
                tracing::debug!(
                    namespace = namespace_name,
                    code = code.name,
                    "another epoch: reserving in it"
                );
                plan.enter(namespace.follow(Purpose::Refill, Some(plan.history.epoch())).await?);
                true
            }
        };
        if !fits {
            let reason = plan.used_up();
            tracing::error!(
                namespace = namespace_name,
                code = code.name,
                %reason,
                "code issues nothing more"
            );
            code.set_reason(Some(reason));
            return Ok(None);
        }
    }
    let contended = format!(
        "other nodes changed code {} or its namespace's record between every two of {RESERVE_TRIES} tries to \
         reserve numbers",
        code.name
    );
    Err(StoreError::Refused(contended.into()))
}

/// Returns whether a code that vanished from the store is back, with a next number that is not
/// lower than the last one seen. Returns `None` if the store was not called: it is called once in
/// [`LONGEST_PAUSE`]. Reserves nothing.
///
/// If the next number is lower, the code stays lost, because it is unknown which numbers other
/// processes have. After a fail-over it counts as back: the gap covers them. Then a code on demand
/// without a row does so, too, and the next reservation creates it.
async fn is_back(code: &Code) -> Result<Option<bool>, StoreError> {
    let vanished = code.demand().vanished;
    if vanished.is_none() && code.has_failed_over().await {
        return Ok(Some(true));
    }
    if vanished.is_none_or(|looked| looked.elapsed() < LONGEST_PAUSE) {
        return Ok(None);
    }
    let next = code.namespace.read_row(&code.name).await?.map(|row| row.next);
    let has_failed_over = code.has_failed_over().await;
    let is_on_demand = matches!(code.current().origin, Origin::OnDemand { .. });
    let is_back = match next {
        Some(next) => has_failed_over || next >= code.demand().store_next,
        None => has_failed_over && is_on_demand,
    };
    code.demand().vanished = (next.is_none() || is_back).then(Instant::now);
    Ok(Some(is_back))
}

async fn call_reserve(code: &Code, reservation: &Reservation) -> Result<Reserved, StoreError> {
    let namespace = &code.namespace;
    if let Some(strict) = &code.strict {
        strict.sends(reservation);
    }
    let reserved = namespace.shared.store.reserve(namespace.name(), &code.name, reservation);
    let reserved = namespace.call(Purpose::Refill, StoreOperation::Reserve, reserved).await?;
    if let Some(strict) = &code.strict
        && !matches!(reserved, Reserved::From(_))
    {
        strict.refused();
    }
    Ok(reserved)
}

/// Returns the step of the next reservation, by the demand since the last one.
fn next_step(code: &Code, demand: &Demand, left: u64) -> u64 {
    let spec = code.spec();
    let rule = StepRule {
        min: spec.min_step,
        max: spec.max_step,
        target: code.namespace.settings.target_duration,
    };
    let Some(refilled_at) = demand.refilled_at else { return rule.min };
    let used = demand.in_hand_after_refill.saturating_sub(left);
    rule.next(demand.step, used, refilled_at.elapsed())
}

#[cfg(test)]
mod tests;
