//! `raindrop workers`: lists worker ids, or changes what the store records of them.

use std::{collections::BTreeMap, time::Duration};

use super::{
    arguments::{duration, keeper_of},
    failure::Failure,
    output::{print, say, table},
    store::{listed, with_store},
};
use crate::{
    config::Config,
    core::{instant::format_unix_ms, layout::Layout, namespace::DEFAULT_NAMESPACE},
    keeper::{FinishedMove, KeeperSettings, LeaseTimes, Operator, RelayoutOutcome, WorkerRelease},
    store::{ListedRow, Store},
};

const HEADINGS: [&str; 7] = ["NAMESPACE", "WORKER", "LANE", "STATE", "EXPIRES", "MARKS", "HOLDER"];

/// The longest window of a lease.
const LONGEST_WINDOW: Duration = Duration::from_hours(24);

#[derive(Debug, clap::Args)]
pub(super) struct WorkersArguments {
    /// The namespace to release, raise or move; the list shows every namespace.
    #[arg(long, global = true, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// Also list each worker id that was never used.
    #[arg(long)]
    all: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Free worker ids early, for example those of a machine that burned down.
    ///
    /// Always safe: a holder that still runs uses up its lease, whose IDs the next holder never
    /// issues, and then leases another worker id.
    Release {
        /// The worker ids.
        #[arg(value_name = "WORKER", required = true)]
        workers: Vec<u64>,
    },
    /// Raise every mark above everything that was ever leased, before any node uses a restored
    /// backup.
    ///
    /// A backup has old marks: nodes that started from them would repeat IDs that were issued
    /// since. Raised marks are ahead of the store's clock by --window and lease.max_clock_skew;
    /// nodes issue IDs again when that time has passed.
    ///
    /// Safe if no node has written to the restored store before, the store's clock is right, and
    /// --window is the largest lease.window of any node. Nodes that still run on their old leases
    /// do no harm. Repeating the command, or running it at any other time, only costs time.
    Raise {
        /// The largest lease.window of any node that used the store, such as 5m; by default the
        /// configured one.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        window: Option<Duration>,
    },
    /// Move the namespace from its recorded layout to the configured one.
    ///
    /// Safe only if every ID of the new layout is above every ID that the old marks allow: the
    /// command prints both, and refuses otherwise. Nodes of the old layout do no harm: they stop
    /// when their leases end, and must be restarted with the new configuration.
    ///
    /// If the command is interrupted, run it again: no node can join until it has finished.
    Relayout,
}

pub(super) fn run(config: &Config, arguments: &WorkersArguments) -> Result<(), Failure> {
    let Some(command) = &arguments.command else {
        return with_store(config, async |store, _| list(config, &*store, arguments.all).await);
    };
    if arguments.all {
        return Err(Failure::Usage("--all: must be left out with a subcommand".into()));
    }
    let settings = keeper_of(config, &arguments.namespace)?;
    with_store(config, async |store, clock| {
        let mut operator = Operator::new(settings.clone(), store, clock);
        match command {
            Command::Release { workers } => release(&mut operator, workers).await,
            Command::Raise { window } => raise(&mut operator, &settings.lease, *window).await,
            Command::Relayout => relayout(&mut operator, &settings.layout).await,
        }
    })
}

async fn release(operator: &mut Operator, workers: &[u64]) -> Result<(), Failure> {
    // Refuses a bad one before any is changed.
    workers.iter().try_for_each(|worker| operator.check_worker(*worker))?;
    for worker in workers {
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

async fn raise(
    operator: &mut Operator,
    lease: &LeaseTimes,
    window: Option<Duration>,
) -> Result<(), Failure> {
    let least = lease.window;
    let (window, origin) = match window {
        Some(window) if !(least..=LONGEST_WINDOW).contains(&window) => {
            return Err(Failure::Usage(format!(
                "--window {window:?}: must be lease.window ({least:?}) to {LONGEST_WINDOW:?}"
            )));
        }
        Some(window) => (window, "--window"),
        None => (least, "lease.window of this configuration"),
    };
    say(&format!(
        "raising every mark to now + {window:?} ({origin}; must be the largest of any node) + {:?} \
         (lease.max_clock_skew). No node may have written to the store since it was restored",
        lease.max_clock_skew
    ))?;
    let raised = operator.raise(window).await?;
    say(&format!(
        "{} worker ids are free and start above everything that was ever leased; they issue IDs \
         from {} on",
        raised.rows,
        format_unix_ms(raised.due_ms)
    ))
}

async fn relayout(operator: &mut Operator, layout: &Layout) -> Result<(), Failure> {
    let ours = layout.canonical();
    say(&match operator.relayout().await? {
        RelayoutOutcome::NothingToDo => format!("nothing to do: the layout is `{ours}` already"),
        RelayoutOutcome::Reverted { to } => format!(
            "the unfinished move to `{to}` was undone: the layout is `{ours}`. Restart the nodes \
             that ran meanwhile"
        ),
        RelayoutOutcome::Moved(FinishedMove { from, largest_old, smallest_new, resumed }) => {
            let largest = match largest_old {
                Some(largest) => format!("the largest ID that the old marks allow is {largest}"),
                None if resumed => "an interrupted move was finished".to_owned(),
                None => "the old marks allow no ID at all".to_owned(),
            };
            format!(
                "{largest}, the smallest of the new layout {smallest_new}\n\
                 the layout was `{from}`\n\
                 the layout is  `{ours}`\n\
                 start the nodes with this configuration; those of the old layout stop when their \
                 leases end"
            )
        }
    })
}

async fn list(config: &Config, store: &dyn Store, all: bool) -> Result<(), Failure> {
    let rows = listed(store.list().await)?;
    let mut layouts: BTreeMap<&str, &Layout> = BTreeMap::new();
    for KeeperSettings { namespace, layout, .. } in config.keepers().filter(|_| !rows.is_empty()) {
        // The marks can be shown as instants where the configured layout is the recorded one.
        let record = store.read_record(namespace).await?;
        if record.is_some_and(|record| record.canonical == layout.canonical()) {
            layouts.insert(namespace, layout);
        }
    }
    let layout_of = |row: &ListedRow| {
        let layout = layouts.get(row.namespace.as_str()).copied();
        layout.filter(|layout| row.row.marks.lanes() == layout.lanes())
    };
    let (shown, unused): (Vec<&ListedRow>, Vec<&ListedRow>) =
        rows.iter().partition(|row| all || !row.row.holder.is_empty());
    let lines: Vec<[String; 7]> = shown.into_iter().map(|row| line(row, layout_of(row))).collect();
    print(&(table(HEADINGS, &lines) + &summary(&unused)))
}

/// Returns a line for each namespace with worker ids that were never used.
fn summary(unused: &[&ListedRow]) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in unused {
        *counts.entry(row.namespace.as_str()).or_default() += 1;
    }
    let line = |(namespace, count): (&str, u64)| {
        format!("{namespace}: {count} worker ids were never used; --all lists them\n")
    };
    counts.into_iter().map(line).collect()
}

fn line(listed: &ListedRow, layout: Option<&Layout>) -> [String; 7] {
    let row = &listed.row;
    let mark = |mark| match layout {
        Some(_) if mark == 0 => "unused".into(),
        Some(layout) => format_unix_ms(layout.start_of_tick_ms(layout.tick_of(mark))),
        None => mark.to_string(),
    };
    let marks: Vec<String> = row.marks.iter().map(mark).collect();
    let expires = if row.free { "-".into() } else { format_unix_ms(row.expires_ms) };
    [
        listed.namespace.clone(),
        row.worker.to_string(),
        row.lane.to_string(),
        if row.free { "free" } else { "held" }.into(),
        expires,
        marks.join(","),
        if row.holder.is_empty() { "-".into() } else { row.holder.clone() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        lease::{HighWaterMarks, Row, Token},
        preset::Preset,
    };

    #[test]
    fn rows_are_shown_with_their_marks_as_instants() {
        let layout = Preset::Raindrop.spec().build().expect("valid");
        let tick = layout.tick_in_range(1_763_650_000_000).expect("fits");
        let listed = ListedRow {
            namespace: "default".into(),
            reserved_key: "0/0".into(),
            row: Row {
                worker: 7,
                token: Token::UNUSED,
                holder: "10.0.0.7:8080#mac".into(),
                lane: 1,
                marks: HighWaterMarks::all_at(0, 2).with(1, layout.first_position(tick)),
                free: false,
                heartbeat_ms: 0,
                expires_ms: 1_763_650_090_000,
            },
        };
        let text = table(HEADINGS, &[line(&listed, Some(&layout))]);
        assert_eq!(
            text,
            "NAMESPACE  WORKER  LANE  STATE  EXPIRES                   MARKS                            HOLDER\n\
             default    7       1     held   2025-11-20T14:48:10.000Z  unused,2025-11-20T14:46:40.000Z  10.0.0.7:8080#mac\n"
        );
        assert!(line(&listed, None)[5].starts_with("0,"));
        let said = "default: 2 worker ids were never used; --all lists them\n";
        assert_eq!(summary(&[&listed, &listed]), said);
        assert_eq!(summary(&[]), "");
    }
}
