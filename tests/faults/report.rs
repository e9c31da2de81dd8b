//! Reports the effects of faults on a cluster, as a table.

use std::{fmt, time::Duration};

/// The effects of one fault, over all the times that it struck.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) fault: &'static str,
    pub(crate) times: usize,
    pub(crate) requests: usize,
    pub(crate) refused: usize,
    pub(crate) broken: usize,
    pub(crate) unexpected: usize,
    pub(crate) ids: usize,
    pub(crate) duplicates: usize,
    pub(crate) cluster_gap: Duration,
    pub(crate) victim_gap: Duration,
    /// Of the slowest victim, while it was up.
    pub(crate) ids_per_second: f64,
}

/// The rows of one engine.
#[derive(Debug)]
pub(crate) struct Report {
    engine: &'static str,
    rows: Vec<Row>,
}

const HEAD: [&str; 11] = [
    "fault",
    "times",
    "requests",
    "503",
    "broken",
    "other failures",
    "IDs",
    "duplicates",
    "longest gap",
    "of a victim",
    "IDs/s of a victim",
];

impl Report {
    pub(crate) fn new(engine: &'static str) -> Self {
        Self { engine, rows: Vec::new() }
    }

    /// Adds the figures to the row of the same fault.
    pub(crate) fn add(&mut self, new: Row) {
        let Some(row) = self.rows.iter_mut().find(|row| row.fault == new.fault) else {
            return self.rows.push(new);
        };
        row.add(&new);
        row.ids_per_second = row.ids_per_second.min(new.ids_per_second);
    }

    pub(crate) fn engine(&self) -> &'static str {
        self.engine
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn total(&self) -> Row {
        let rates = self.rows.iter().map(|row| row.ids_per_second);
        let ids_per_second = rates.fold(f64::INFINITY, f64::min);
        let mut total = Row { fault: "all", ids_per_second, ..Row::default() };
        self.rows.iter().for_each(|row| total.add(row));
        total
    }
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.times += other.times;
        self.requests += other.requests;
        self.refused += other.refused;
        self.broken += other.broken;
        self.unexpected += other.unexpected;
        self.ids += other.ids;
        self.duplicates += other.duplicates;
        self.cluster_gap = self.cluster_gap.max(other.cluster_gap);
        self.victim_gap = self.victim_gap.max(other.victim_gap);
    }

    fn cells(&self) -> [String; 11] {
        let seconds = |gap: Duration| format!("{:.2} s", gap.as_secs_f64());
        [
            self.fault.to_owned(),
            self.times.to_string(),
            self.requests.to_string(),
            self.refused.to_string(),
            self.broken.to_string(),
            self.unexpected.to_string(),
            self.ids.to_string(),
            self.duplicates.to_string(),
            seconds(self.cluster_gap),
            seconds(self.victim_gap),
            format!("{:.0}", self.ids_per_second),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut head = HEAD.map(str::to_owned);
        head[0] = format!("{} ({})", head[0], self.engine);
        let lines: Vec<_> = self.rows.iter().chain([&self.total()]).map(Row::cells).collect();
        write_table(f, &head, &lines)
    }
}

/// Writes a table, its columns as wide as their widest cells; numbers stand at the right.
pub(crate) fn write_table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    head: &[String; N],
    lines: &[[String; N]],
) -> fmt::Result {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = lines.iter().chain([head]).map(|line| line[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let write = |f: &mut fmt::Formatter<'_>, cells: &[String; N]| {
        write!(f, "| {:<1$} |", cells[0], widths[0])?;
        for (cell, width) in cells.iter().zip(widths).skip(1) {
            write!(f, " {cell:>width$} |")?;
        }
        writeln!(f)
    };
    write(f, head)?;
    write!(f, "|{:-<1$}|", "", widths[0] + 2)?;
    widths.iter().skip(1).try_for_each(|width| write!(f, "{:->1$}|", ":", width + 2))?;
    writeln!(f)?;
    lines.iter().try_for_each(|line| write(f, line))
}
