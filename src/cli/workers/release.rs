//! `raindrop workers release`.

use std::collections::BTreeSet;

use super::Target;
use crate::{
    cli::{confirm::Confirmation, failure::Failure, output::say},
    core::instant::format_unix_ms,
    keeper::{OperatorError, WorkerRelease},
};

pub(super) async fn release(
    target: &mut Target<'_>,
    workers: &[u64],
    confirmation: &Confirmation,
) -> Result<(), Failure> {
    // Refuse an unknown worker id before any is released.
    workers.iter().try_for_each(|worker| target.operator.check_worker(*worker))?;
    if target.is_unused().await? {
        return Err(OperatorError::NoRow { worker: workers[0] }.into());
    }
    let mut rows = Vec::new();
    for worker in BTreeSet::from_iter(workers) {
        rows.push(target.operator.preview_release(*worker).await?);
    }
    let held: Vec<_> = rows.iter().filter(|row| !row.free).collect();
    if !held.is_empty() {
        confirmation.check("workers release")?;
        let place = target.place();
        for row in held {
            say(&format!(
                "{place}: frees worker {}, which {} holds until {}",
                row.worker,
                row.holder,
                format_unix_ms(row.expires_ms)
            ))?;
        }
        say(
            "a holder that still runs may issue IDs up to its mark, and then leases another worker id",
        )?;
        if !confirmation.is_given()? {
            return Ok(());
        }
    }
    for row in rows {
        let worker = row.worker;
        let released = if row.free {
            WorkerRelease::AlreadyFree(row)
        } else {
            let now = target.operator.preview_release(worker).await?;
            if !now.free && now.holder != row.holder {
                // The operator has not confirmed the release from this holder.
                return Err(OperatorError::RowChanged { now: now.into() }.into());
            }
            target.operator.release(worker).await?
        };
        say(&match released {
            WorkerRelease::Released(row) => format!(
                "worker {worker} is free. It was held by {} until {}; the next lease starts above its \
                 mark",
                row.holder,
                format_unix_ms(row.expires_ms),
            ),
            WorkerRelease::AlreadyFree(_) => format!("worker {worker} was free already"),
        })?;
    }
    Ok(())
}
