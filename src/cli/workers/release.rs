//! `raindrop workers release`.

use crate::{
    cli::{failure::Failure, output::say},
    core::instant::format_unix_ms,
    keeper::{Operator, WorkerRelease},
};

#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArguments {
    /// The worker ids.
    #[arg(value_name = "WORKER", required = true)]
    workers: Vec<u64>,
}

pub(super) async fn run(
    operator: &mut Operator,
    arguments: &ReleaseArguments,
) -> Result<(), Failure> {
    // Refuses a bad one before any is changed.
    arguments.workers.iter().try_for_each(|worker| operator.check_worker(*worker))?;
    for worker in &arguments.workers {
        say(&match operator.release(*worker).await? {
            WorkerRelease::Released(row) => format!(
                "worker {worker} is free. It was held by {} until {}; that holder may issue IDs up \
                 to its mark, and then leases another worker id. The next lease starts above it",
                row.holder,
                format_unix_ms(row.expires_ms),
            ),
            WorkerRelease::AlreadyFree(_) => format!("worker {worker} was free already"),
        })?;
    }
    Ok(())
}
