//! Reserves the next block of a code.

use tokio::time::Instant;

use super::{
    code::{Code, Demand},
    shared::{Namespace, Shared},
};
use crate::{
    core::segment::{Block, StepRule},
    keeper::{RefillOutcome, StoreOperation, Trouble, random::LONGEST_PAUSE},
    store::{Reservation, Reserved, StoreError},
};

/// Reserves a block if the code has need of one.
pub(super) async fn refill(
    shared: &Shared,
    namespace: &Namespace,
    code: &Code,
) -> Result<(), StoreError> {
    let missing = {
        let mut demand = code.demand();
        demand.missing = demand.missing.max(code.cursor.take_missing());
        demand.missing
    };
    // Each claim would ask the store in vain. What the store lost may come back.
    let trouble = code.trouble.borrow().clone();
    match trouble {
        Some(Trouble::NumbersUsedUp) => return Ok(()),
        Some(Trouble::StoreLost) if !is_back(shared, namespace, code).await? => return Ok(()),
        _ => {}
    }
    let left = code.cursor.left();
    if missing == 0 && left > code.demand().step {
        return Ok(());
    }
    let outcome = reserve(shared, namespace, code, left).await;
    namespace.observer.segment_refilled(match &outcome {
        Ok(Some(_)) => RefillOutcome::Done,
        Ok(None) => RefillOutcome::Refused,
        Err(_) => RefillOutcome::Failed,
    });
    let Some((block, step)) = outcome? else { return Ok(()) };
    match code.cursor.add(&block, step) {
        Ok(()) => {
            let had = code.cursor.left();
            let since = Some(Instant::now());
            *code.demand() = Demand { step, since, had, missing: 0, vanished: None };
            code.set_trouble(None);
        }
        Err(error) => {
            tracing::error!(namespace = namespace.settings.namespace, code = code.name, "{error}");
            code.set_trouble(Some(Trouble::StoreLost));
        }
    }
    Ok(())
}

/// The next block and the step that it was reserved with; `None` where there is none.
async fn reserve(
    shared: &Shared,
    namespace: &Namespace,
    code: &Code,
    left: u64,
) -> Result<Option<(Block, u64)>, StoreError> {
    let demand = *code.demand();
    let spec = &code.spec;
    let step = step(namespace, code, &demand, left);
    let increment = spec.increment;
    // One past the largest number, where the next one of the progression would begin.
    let end = spec.max + 1;
    let mut by = step.max(demand.missing).saturating_mul(increment);
    for _ in 0..TRIES {
        let token = shared.fresh_token();
        let settings = &namespace.settings;
        // Made on demand by the first reservation; never again once it was there.
        let is_made = demand.since.is_none() && settings.auto_create.is_some();
        let or_begin_at = is_made.then(|| spec.first());
        let reservation = Reservation { by, end, token, or_begin_at };
        let question = shared.store.reserve(&settings.namespace, &code.name, &reservation);
        match shared.ask(&*namespace.observer, StoreOperation::Reserve, question).await? {
            Reserved::From(first) => {
                code.saw_next(first + by);
                return Ok(Some((Block { first, end: first + by, token }, step)));
            }
            // Near the end the last block is what is left.
            Reserved::Refused { next } if next < end => {
                code.saw_next(next);
                by = (end - next).min(by.saturating_sub(1));
            }
            Reserved::Refused { next } => {
                code.saw_next(next);
                code.set_trouble(Some(Trouble::NumbersUsedUp));
                return Ok(None);
            }
            Reserved::NoSuchCode => {
                tracing::error!(
                    namespace = settings.namespace,
                    code = code.name,
                    "the code vanished from the store"
                );
                code.demand().vanished = Some(Instant::now());
                code.set_trouble(Some(Trouble::StoreLost));
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// Whether a code that vanished is there again, with numbers above those that were seen before:
/// looked at now and then, without reserving any. One that went back is not waited for, because
/// nobody knows which numbers other processes had.
async fn is_back(shared: &Shared, namespace: &Namespace, code: &Code) -> Result<bool, StoreError> {
    let vanished = code.demand().vanished;
    if vanished.is_none_or(|looked| looked.elapsed() < LONGEST_PAUSE) {
        return Ok(false);
    }
    let (token, end) = (shared.fresh_token(), code.spec.max + 1);
    let nothing = Reservation { by: 0, end, token, or_begin_at: None };
    let question = shared.store.reserve(&namespace.settings.namespace, &code.name, &nothing);
    let next = match shared.ask(&*namespace.observer, StoreOperation::Reserve, question).await? {
        Reserved::From(next) | Reserved::Refused { next } => Some(next),
        Reserved::NoSuchCode => None,
    };
    let is_back = next.is_some_and(|next| next >= code.last_seen());
    code.demand().vanished = (next.is_none() || is_back).then(Instant::now);
    Ok(is_back)
}

/// How often a reservation near the end is tried while others reserve too.
const TRIES: u32 = 8;

fn step(namespace: &Namespace, code: &Code, demand: &Demand, left: u64) -> u64 {
    let rule = StepRule {
        min: code.spec.min_step,
        max: code.spec.max_step,
        target: namespace.settings.target_duration,
    };
    match demand.since {
        None => rule.min,
        Some(since) => rule.next(demand.step, demand.had.saturating_sub(left), since.elapsed()),
    }
}

#[cfg(test)]
mod tests;
