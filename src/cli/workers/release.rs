//! `raindrop workers release`.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Target;
use crate::{
    cli::{confirm::Confirmation, failure::Failure},
    core::{instant::format_unix_ms, lease::Row},
    keeper::{OperatorError, WorkerRelease},
    server::ReleaseDocument,
};

/// What `raindrop workers release --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    /// Whether all worker ids are free now.
    done: bool,
    namespace: &'a str,
    workers: Vec<Released>,
}

/// A worker id, with the answer of `POST /cluster/release`.
#[derive(Serialize)]
struct Released {
    worker_id: u64,
    #[serde(flatten)]
    document: ReleaseDocument,
}

impl Released {
    /// Describes a row that is not released, or not yet.
    fn not_yet(row: &Row) -> Self {
        let held = |text: String| (!row.free).then_some(text);
        let (holder, expires) = (row.holder.clone(), format_unix_ms(row.expires_ms));
        let document =
            ReleaseDocument { released: false, holder: held(holder), expires: held(expires) };
        Self { worker_id: row.worker, document }
    }
}

pub(super) async fn release(
    target: &mut Target<'_>,
    workers: &[u64],
    confirmation: &Confirmation,
) -> Result<(), Failure> {
    let (report, namespace) = (target.report, target.settings.namespace.clone());
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
            report.say(&format!(
                "{place}: frees worker {}, which {} holds until {}",
                row.worker,
                row.holder,
                format_unix_ms(row.expires_ms)
            ))?;
        }
        report.say(
            "a holder that still runs may issue IDs up to its mark, and then leases another worker id",
        )?;
        if !confirmation.is_given()? {
            let workers = rows.iter().map(Released::not_yet).collect();
            return report.document(&Document { done: false, namespace: &namespace, workers });
        }
    }
    let mut workers = Vec::new();
    let result = release_all(target, rows, &mut workers).await;
    report.document(&Document { done: result.is_ok(), namespace: &namespace, workers })?;
    result
}

/// Releases these rows one after the other, and adds what became of each.
async fn release_all(
    target: &mut Target<'_>,
    rows: Vec<Row>,
    workers: &mut Vec<Released>,
) -> Result<(), Failure> {
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
        workers.push(Released { worker_id: worker, document: (&released).into() });
        target.report.say(&match released {
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
