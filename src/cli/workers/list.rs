//! `raindrop workers`: lists worker ids.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    cli::{
        arguments::keeper_of,
        failure::Failure,
        output::{error, print, table},
    },
    config::Config,
    core::{
        clock::Clock,
        instant::format_unix_ms,
        layout::Layout,
        lease::{Row, first_due},
        visible::visible,
    },
    keeper::KeeperSettings,
    server::unknown_namespace,
    store::{LayoutRecord, ListedRow, Store, StoreError},
};

const HEADINGS: [&str; 7] = ["NAMESPACE", "WORKER", "LANE", "STATE", "EXPIRES", "MARKS", "HOLDER"];

/// Prints the worker ids of one namespace, or of all.
pub(super) async fn list(
    config: &Config,
    store: &dyn Store,
    clock: &dyn Clock,
    namespace: Option<&str>,
    all: bool,
) -> Result<(), Failure> {
    let mut rows = match store.list_rows().await {
        // A list must not create the tables.
        Err(StoreError::Vanished(_)) => Vec::new(),
        rows => rows?,
    };
    if let Some(namespace) = namespace {
        check_namespace(config, &rows, namespace)?;
        rows.retain(|row| row.namespace == namespace);
    }
    if rows.is_empty() {
        let whose = namespace.map_or(String::new(), |name| format!(" of namespace {name}"));
        error(&format!("the store has no worker ids{whose} yet"));
        return Ok(());
    }
    let mut layouts: BTreeMap<&str, &Layout> = BTreeMap::new();
    for KeeperSettings { namespace, layout, .. } in config.keepers() {
        // Marks can be shown as instants only if the configured layout is the recorded one.
        let record = store.read_record(namespace).await?;
        let is_ours = |record: &LayoutRecord| record.canonical == layout.canonical();
        if let Some(LayoutRecord { history, .. }) = record.filter(is_ours) {
            layouts.insert(namespace, layout);
            // Show the marks that count in the present epoch.
            for ListedRow { row, .. } in rows.iter_mut().filter(|row| row.namespace == *namespace) {
                row.marks = history.marks(layout, row.epoch, &row.marks);
            }
        }
    }
    let layout_of = |row: &ListedRow| {
        let layout = layouts.get(row.namespace.as_str()).copied();
        layout.filter(|layout| row.row.marks.lanes() == layout.lanes())
    };
    let (shown, unused): (Vec<&ListedRow>, Vec<&ListedRow>) =
        rows.iter().partition(|row| all || !row.row.holder.is_empty());
    let now_ms = clock.now_ms();
    let line = |row| line(row, layout_of(row), now_ms);
    let lines: Vec<[String; 7]> = shown.into_iter().map(line).collect();
    print(&(table(HEADINGS, &lines) + &summary(&unused)))
}

/// Returns a line for each namespace with worker ids that were never used.
fn summary(unused: &[&ListedRow]) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in unused {
        *counts.entry(row.namespace.as_str()).or_default() += 1;
    }
    let line = |(namespace, count): (&str, u64)| {
        format!("{}: {count} worker ids were never used; --all lists them\n", visible(namespace))
    };
    counts.into_iter().map(line).collect()
}

/// Refuses a namespace that is neither configured nor in the store.
fn check_namespace(config: &Config, rows: &[ListedRow], namespace: &str) -> Result<(), Failure> {
    if rows.iter().any(|row| row.namespace == namespace) {
        return Ok(());
    }
    let configured = config.keepers().map(|keeper| &keeper.namespace);
    let known: BTreeSet<&String> =
        configured.chain(rows.iter().map(|row| &row.namespace)).collect();
    match keeper_of(config, namespace) {
        Ok(_) => Ok(()),
        Err(_) if config.namespaces.iter().all(|known| known.name != namespace) => {
            Err(Failure::Usage(unknown_namespace(namespace, known.into_iter())))
        }
        Err(is_segment) => Err(is_segment),
    }
}

/// Returns the state of a row: held, available, or the time from which it can be leased.
fn state(row: &Row, layout: Option<&Layout>, now_ms: i64) -> String {
    let due_ms = layout.and_then(|layout| first_due(layout, std::slice::from_ref(row)));
    match due_ms {
        _ if !row.free => "held".into(),
        Some(due_ms) if due_ms > now_ms => format!("not before {}", format_unix_ms(due_ms)),
        _ => "free".into(),
    }
}

fn line(listed: &ListedRow, layout: Option<&Layout>, now_ms: i64) -> [String; 7] {
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
        state(row, layout, now_ms),
        expires,
        marks.join(","),
        if row.holder.is_empty() { "-".into() } else { row.holder.clone() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        lease::{HighWaterMarks, Token},
        preset::Preset,
    };

    #[test]
    fn rows_are_shown_with_their_marks_as_instants() {
        let layout = Preset::Raindrop.spec().build().expect("valid");
        let tick = layout.tick_in_range(1_763_650_000_000).expect("fits");
        let mut listed = ListedRow {
            namespace: "default".into(),
            reserved_key: "0/0".into(),
            row: Row {
                worker: 7,
                epoch: Token::UNUSED,
                token: Token::UNUSED,
                holder: "10.0.0.7:8080#mac".into(),
                lane: 1,
                marks: HighWaterMarks::all_at(0, 2).with(1, layout.first_position(tick)),
                free: false,
                heartbeat_ms: 0,
                expires_ms: 1_763_650_090_000,
            },
        };
        let text = table(HEADINGS, &[line(&listed, Some(&layout), 0)]);
        assert_eq!(
            text,
            "NAMESPACE  WORKER  LANE  STATE  EXPIRES                   MARKS                            HOLDER\n\
             default    7       1     held   2025-11-20T14:48:10.000Z  unused,2025-11-20T14:46:40.000Z  10.0.0.7:8080#mac\n"
        );
        assert!(line(&listed, None, 0)[5].starts_with("0,"));
        // A released row, first with a lane that can be leased at once, then with none.
        listed.row.free = true;
        let state = |row: &ListedRow| line(row, Some(&layout), 1_763_650_000_000)[3].clone();
        assert_eq!(state(&listed), "free");
        listed.row.marks = HighWaterMarks::all_at(layout.first_position(tick + 90_000), 2)
            .with(1, layout.first_position(tick + 60_000));
        assert_eq!(state(&listed), "not before 2025-11-20T14:47:40.000Z");
        assert_eq!(line(&listed, None, 0)[3], "free", "what the marks mean is unknown");
        listed.row.free = false;
        assert_eq!(state(&listed), "held");
        let said = "default: 2 worker ids were never used; --all lists them\n";
        assert_eq!(summary(&[&listed, &listed]), said);
        assert_eq!(summary(&[]), "");
    }
}
