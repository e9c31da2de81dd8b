//! Resumes the lease that the state file has, when a process starts.
//!
//! The keeper checks the file's lease against layout, worker ids and clock. It also reads the row,
//! if the store answers within a second, and drops the lease if another process has taken the row,
//! or if its token cannot be read. A resumed grant starts at the saved local mark. Once the store
//! answers, the keeper renews the lease like any other. Tests: `state_files.rs` in `src/tests`.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    instant::{format_unix_ms_or_year, millis},
    lease::{Lease, Resolution, ResumeRequest},
};
use tokio::time::timeout;

use super::{
    context::{LeaseContext, LeaseError, may_have_token},
    held::HeldLease,
    state_file_writer::{StateFileFailed, StateFileWriter},
    task::loss,
};
use crate::{
    state_file::format::Entry,
    support::observer::{LeaseOperation, LeaseOutcome},
};

/// A store that takes longer than this to return the row counts as unavailable.
const DEADLINE: Duration = Duration::from_secs(1);

/// Resumes the lease from the state file. Returns `None` if there is none, or if it is refused.
pub(crate) async fn resume(context: &mut LeaseContext) -> Option<HeldLease> {
    let file_writer = Arc::clone(context.file_writer.as_ref()?);
    let resumed = try_resume(context, &file_writer).await;
    let outcome = match &resumed {
        Ok(Some(_)) => LeaseOutcome::Done,
        Ok(None) => LeaseOutcome::NoneFree,
        Err(reason) => {
            let namespace = &context.settings.namespace;
            tracing::warn!(namespace, reason, "lease in the state file refused: acquiring another");
            LeaseOutcome::Refused
        }
    };
    context.observe(LeaseOperation::Resume, outcome);
    resumed.ok().flatten()
}

async fn try_resume(
    context: &mut LeaseContext,
    file_writer: &StateFileWriter,
) -> Result<Option<HeldLease>, String> {
    let (settings, now_ms) = (&context.settings, context.shared.clock.now_ms());
    let (layout, issue) = (&settings.layout, &settings.issue);
    let ahead = [issue.borrow_ahead, issue.max_wait, issue.hold];
    let check = |entry: &Entry| {
        entry.lease.check(&ResumeRequest {
            layout,
            saved_layout: &entry.layout,
            min_worker: settings.min_worker,
            max_worker: settings.max_worker,
            now_ms,
            issued_ahead_ms: ahead.map(millis).iter().sum(),
        })
    };
    let Some(saved) = file_writer.resumable(check).await? else { return Ok(None) };
    context.history.resume(saved.epoch);
    let mut known_row = saved.known_row();
    // Other processes wait for a crashed one only until its row expires. If one of them took the
    // row, this process must not issue.
    let found = timeout(DEADLINE, context.read_and_resolve(&mut known_row)).await;
    let lost = match found {
        Ok(Ok((Resolution::Lost, Some(row)))) => {
            context.note_new_owner(&row, saved.lane, saved.limit());
            Some(loss(&row, &context.settings.holder).to_owned())
        }
        // If another value cannot be read, the token decides with the first renewal.
        Ok(Err(LeaseError::Unreadable(error))) if !may_have_token(&error) => {
            context.lost_unreadable = true;
            Some(format!("its row cannot be read: {error}"))
        }
        _ => None,
    };
    if let Some(reason) = lost {
        let forgotten = file_writer.forget().await;
        return Err(
            forgotten.map_or_else(|StateFileFailed(reason)| reason.to_string(), |()| reason)
        );
    }
    let layout = &context.settings.layout;
    let lease =
        Lease { lane: saved.lane, start: saved.start(layout, now_ms), limit: saved.limit() };
    let mut held = HeldLease::new(context, known_row, lease, None);
    held.grant.note_reading(now_ms);
    if let Err(LeaseError::NotSaved(StateFileFailed(reason))) = held.save(context).await {
        return Err(reason.to_string());
    }
    let (namespace, worker, lane) = (&context.settings.namespace, saved.worker, saved.lane);
    let until_ms = layout.start_of_tick_ms(layout.tick_of(lease.limit.saturating_sub(1)) + 1);
    let valid_until = format_unix_ms_or_year(until_ms);
    tracing::info!(namespace, worker, lane, valid_until, "lease resumed from the state file");
    Ok(Some(held))
}
