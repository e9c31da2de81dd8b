//! Reports the effects of fail-overs on a fleet, as a table.

use std::{fmt, time::Duration};

use crate::report::write_table;

/// The effects of one fail-over.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) step: &'static str,
    pub(super) lost_writes: usize,
    pub(super) ids: usize,
    pub(super) duplicates: usize,
    /// The longest time in which a node that ran throughout issued nothing.
    pub(super) running_gap: Duration,
    /// The time from the start of a new node to its first ID.
    pub(super) starting_wait: Duration,
}

/// The fail-overs of one engine.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) engine: &'static str,
    /// The settings that differ from the defaults.
    pub(super) leases: Vec<(&'static str, String)>,
    pub(super) rows: Vec<Row>,
}

const HEAD: [&str; 7] = [
    "engine",
    "step",
    "lost writes",
    "IDs",
    "duplicates",
    "longest gap of a running node",
    "wait of a starting node",
];

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let cells = |row: &Row| {
            [
                self.engine.to_owned(),
                row.step.to_owned(),
                row.lost_writes.to_string(),
                row.ids.to_string(),
                row.duplicates.to_string(),
                seconds(row.running_gap),
                seconds(row.starting_wait),
            ]
        };
        let leases: Vec<_> =
            self.leases.iter().map(|(key, value)| format!("{key} {value}")).collect();
        writeln!(f, "{} with {}:", self.engine, leases.join(", "))?;
        let lines: Vec<_> = self.rows.iter().map(cells).collect();
        write_table(f, &HEAD.map(str::to_owned), &lines)
    }
}
