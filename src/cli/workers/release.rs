//! `raindrop workers release`.

use crate::{
    cli::{failure::Failure, output::say},
    core::instant::format_unix_ms,
    keeper::{Freed, Operator},
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
    // Before the first one is touched.
    arguments.workers.iter().try_for_each(|worker| operator.check_worker(*worker))?;
    for worker in &arguments.workers {
        say(&match operator.release(*worker).await? {
            Freed::Released(row) => format!(
                "worker {worker} is free. It was held by {} until {}, who may go on up to its mark \
                 and then finds it lost; the next lease begins above",
                row.holder,
                format_unix_ms(row.expires_ms),
            ),
            Freed::WasFree(_) => format!("worker {worker} was free already"),
        })?;
    }
    Ok(())
}
