//! Reserves the next block of a code.

use tokio::time::Instant;

use super::code::{Code, Current, Demand, Origin};
use crate::{
    core::segment::{Block, StepRule},
    keeper::{RefillOutcome, StoreOperation, UnavailableReason, random::LONGEST_PAUSE},
    store::{Reservation, Reserved, StoreError},
};

/// How often a reservation near the end is tried while other nodes reserve too.
const TRIES: u32 = 8;

/// Reserves a block if the code needs one.
pub(super) async fn refill(code: &Code) -> Result<(), StoreError> {
    let missing = {
        let mut demand = code.demand();
        demand.missing = demand.missing.max(code.cursor.take_missing());
        demand.missing
    };
    // Otherwise each claim would call the store in vain. What the store lost may come back.
    let reason = code.reason.borrow().clone();
    match reason {
        Some(UnavailableReason::NumbersUsedUp | UnavailableReason::CodeRefused(_)) => {
            return Ok(());
        }
        Some(UnavailableReason::StoreLost) if !is_back(code).await? => return Ok(()),
        _ => {}
    }
    let left = code.cursor.left();
    if missing == 0 && left > code.demand().step {
        return Ok(());
    }
    let outcome = reserve(code, left).await;
    code.namespace.observer.segment_refilled(match &outcome {
        Ok(Some(_)) => RefillOutcome::Done,
        Ok(None) => RefillOutcome::Refused,
        Err(_) => RefillOutcome::Failed,
    });
    let Some((block, step)) = outcome? else { return Ok(()) };
    match code.cursor.add(&block, step) {
        Ok(()) => {
            let had = code.cursor.left();
            let since = Some(Instant::now());
            let mut demand = code.demand();
            *demand = Demand { step, since, had, missing: 0, vanished: None, ..*demand };
            drop(demand);
            code.set_reason(None);
        }
        Err(error) => {
            let namespace = code.namespace.name();
            tracing::error!(namespace, code = code.name, %error, "block refused");
            code.set_reason(Some(UnavailableReason::StoreLost));
        }
    }
    Ok(())
}

/// Reserves the next block. Returns it with the step it was reserved with; `None` when there is
/// none.
async fn reserve(code: &Code, left: u64) -> Result<Option<(Block, u64)>, StoreError> {
    let demand = *code.demand();
    let namespace = &code.namespace;
    let Current { spec, origin } = code.current();
    let step = next_step(code, &demand, left);
    // One past the largest number, where the next one of the progression would begin.
    let end = spec.max + 1;
    let mut by = step.max(demand.missing).saturating_mul(spec.increment);
    // A code is created on demand by its first reservation, and never again.
    let mut creation = match origin {
        Origin::OnDemand { client } if demand.since.is_none() => {
            namespace.begin_creation(client).await?.map(Some)
        }
        _ => Ok(None),
    };
    for _ in 0..TRIES {
        let token = namespace.shared.random().fresh_token();
        let may_create = matches!(creation, Ok(Some(_)));
        let or_begin_at = may_create.then(|| spec.first());
        let reservation = Reservation { by, end, token, or_begin_at };
        match call_reserve(code, &reservation).await? {
            Reserved::From(first) => {
                if let Ok(Some(creation)) = &mut creation
                    && first == spec.first()
                {
                    creation.done();
                }
                code.demand().next = first + by;
                return Ok(Some((Block { first, end: first + by, token }, step)));
            }
            // Near the end the last block is what is left.
            Reserved::Refused { next } if next < end => {
                code.demand().next = next;
                by = (end - next).min(by.saturating_sub(1));
            }
            Reserved::Refused { next } => {
                code.demand().next = next;
                code.set_reason(Some(UnavailableReason::NumbersUsedUp));
                return Ok(None);
            }
            Reserved::NoSuchCode if let Err(refused) = &creation => {
                namespace.creations.refuse(&code.name);
                code.set_reason(Some(UnavailableReason::CodeRefused(refused.clone())));
                return Ok(None);
            }
            Reserved::NoSuchCode => {
                let namespace = namespace.name();
                tracing::error!(namespace, code = code.name, "code vanished from the store");
                code.demand().vanished = Some(Instant::now());
                code.set_reason(Some(UnavailableReason::StoreLost));
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// Returns whether a code that vanished is back, with its next number not below what was seen
/// before. The store is asked now and then, and nothing is reserved. A code that went back is not
/// waited for, because which numbers other processes had is unknown.
async fn is_back(code: &Code) -> Result<bool, StoreError> {
    let vanished = code.demand().vanished;
    if vanished.is_none_or(|looked| looked.elapsed() < LONGEST_PAUSE) {
        return Ok(false);
    }
    // Refused without a write, so that no other node's give-back finds another token.
    let token = code.namespace.shared.random().fresh_token();
    let impossible = Reservation { by: 1, end: 0, token, or_begin_at: None };
    let next = match call_reserve(code, &impossible).await? {
        Reserved::From(next) | Reserved::Refused { next } => Some(next),
        Reserved::NoSuchCode => None,
    };
    let is_back = next.is_some_and(|next| next >= code.demand().next);
    code.demand().vanished = (next.is_none() || is_back).then(Instant::now);
    Ok(is_back)
}

async fn call_reserve(code: &Code, reservation: &Reservation) -> Result<Reserved, StoreError> {
    let namespace = &code.namespace;
    let reserved = namespace.shared.store.reserve(namespace.name(), &code.name, reservation);
    namespace.call(StoreOperation::Reserve, reserved).await
}

fn next_step(code: &Code, demand: &Demand, left: u64) -> u64 {
    let spec = code.spec();
    let rule = StepRule {
        min: spec.min_step,
        max: spec.max_step,
        target: code.namespace.settings.target_duration,
    };
    match demand.since {
        None => rule.min,
        Some(since) => rule.next(demand.step, demand.had.saturating_sub(left), since.elapsed()),
    }
}

#[cfg(test)]
mod tests;
