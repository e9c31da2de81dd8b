//! `raindrop workers`: lists worker ids with their holders.

use std::collections::BTreeMap;

use crate::{
    cli::{failure::Failure, output, store::listed, table::table},
    config::Config,
    core::{instant::format_unix_ms, layout::Layout},
    keeper::KeeperSettings,
    store::{ListedRow, Scope, Store},
};

const HEADINGS: [&str; 7] = ["NAMESPACE", "WORKER", "LANE", "STATE", "EXPIRES", "MARKS", "HOLDER"];

pub(super) async fn run(config: &Config, store: &dyn Store, all: bool) -> Result<(), Failure> {
    let rows = listed(store.list().await)?;
    let mut layouts: BTreeMap<&str, &Layout> = BTreeMap::new();
    for KeeperSettings { namespace, layout, .. } in config.keepers() {
        if !rows.is_empty() && is_recorded(store, namespace, layout).await? {
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
    let text = table(HEADINGS, &lines) + &summary(&unused);
    Ok(output::print(&text)?)
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

/// Whether the configured layout is the recorded one, so that its marks can be shown as instants.
async fn is_recorded(store: &dyn Store, namespace: &str, layout: &Layout) -> Result<bool, Failure> {
    let scope = Scope::new(namespace, layout, 0, layout.largest_worker());
    Ok(store.survey(&scope).await?.record.is_some_and(|words| words == layout.canonical()))
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
