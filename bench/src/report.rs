//! Tables and targets: printed, and kept in `target/bench/report.md`.
//!
//! Each benchmark owns one part of that file and replaces only that part.

use std::{
    fmt::{self, Write as _},
    fs, io,
    path::Path,
};

use crate::{machine, number::significant};

/// The parts of the report, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `make bench`.
    InProcess,
    /// `make bench-http`.
    Http,
}

impl Part {
    const ALL: [Self; 2] = [Self::InProcess, Self::Http];

    const fn heading(self) -> &'static str {
        match self {
            Self::InProcess => "# In process (`make bench`)\n",
            Self::Http => "# Over HTTP (`make bench-http`)\n",
        }
    }

    const fn file_name(self) -> &'static str {
        match self {
            Self::InProcess => "in-process.md",
            Self::Http => "http.md",
        }
    }
}

/// The figures that a target allows.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Every smaller figure.
    Below(f64),
    /// This figure or a smaller one.
    AtMost(f64),
    /// This figure or a larger one.
    AtLeast(f64),
}

impl Limit {
    fn allows(self, figure: f64) -> bool {
        match self {
            Self::Below(limit) => figure < limit,
            Self::AtMost(limit) => figure <= limit,
            Self::AtLeast(limit) => figure >= limit,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below(limit) => write!(f, "below {limit}"),
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
        }
    }
}

/// The results of one benchmark.
#[derive(Debug)]
pub struct Report {
    part: Part,
    text: String,
    targets: String,
}

impl Report {
    /// Starts a report with the description of the machine.
    pub fn new(part: Part) -> Self {
        let text = format!("{}\n{}.\n", part.heading(), machine::describe());
        Self { part, text, targets: String::new() }
    }

    /// Adds a table: `conditions` say how its rows were measured, `head` names its columns.
    ///
    /// # Panics
    ///
    /// If a row is not as wide as the head.
    pub fn section(&mut self, title: &str, conditions: &str, head: &[&str], rows: &[Vec<String>]) {
        let width = head.len();
        assert!(rows.iter().all(|row| row.len() == width), "{title}: every row has {width} cells");
        // Text to the left, figures to the right.
        let is_figure =
            |cell: &str| cell.starts_with(|first: char| first.is_ascii_digit() || first == '–');
        let rule = (0..width).map(|at| {
            if rows.iter().all(|row| is_figure(&row[at])) { "---:" } else { "---" }.to_owned()
        });
        let head = head.iter().map(|&cell| cell.to_owned());
        let mut text = format!("\n## {title}\n\n{conditions}\n\n");
        for cells in [head.collect(), rule.collect()].iter().chain(rows) {
            writeln!(text, "| {} |", cells.join(" | ")).expect("a string can be written");
        }
        self.add(&text);
    }

    /// Adds a target: the name of the measurement, the figure, and its limit. A target without a
    /// figure is not met.
    pub fn target(&mut self, what: &str, figure: Option<f64>, limit: Limit, unit: &str) {
        let shown = figure.map_or_else(
            || "no figure: requests failed".to_owned(),
            |figure| format!("{}{unit}", significant(figure)),
        );
        let met = figure.is_some_and(|figure| limit.allows(figure));
        let met = if met { "met" } else { "not met" };
        writeln!(self.targets, "target: {what}: {limit}{unit} | {shown} | {met}")
            .expect("a string can be written");
    }

    /// Prints the targets and writes this part of `target/bench/report.md`; with `keep` also
    /// `in-process.md` or `http.md` in `bench/results`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written.
    pub fn finish(mut self, keep: bool) -> io::Result<()> {
        self.add(&format!("\n## Targets\n\n```text\n{}```\n", self.targets));
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        if keep {
            let folder = package.join("results");
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(self.part.file_name()), &self.text)?;
        }
        let folder = package.join("../target/bench");
        fs::create_dir_all(&folder)?;
        let path = folder.join("report.md");
        let present = match fs::read_to_string(&path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => String::new(),
            present => present?,
        };
        fs::write(&path, replace(&present, self.part, &self.text))?;
        show("\nWritten to target/bench/report.md.\n");
        Ok(())
    }

    fn add(&mut self, text: &str) {
        show(text);
        self.text.push_str(text);
    }
}

/// Returns the report `present` with one part replaced, in the order of [`Part::ALL`].
fn replace(present: &str, part: Part, text: &str) -> String {
    let parts =
        Part::ALL.map(|each| if each == part { Some(text) } else { part_of(present, each) });
    let parts: Vec<_> = parts.into_iter().flatten().map(str::trim).collect();
    format!("{}\n", parts.join("\n\n"))
}

fn part_of(present: &str, part: Part) -> Option<&str> {
    let from = present.find(part.heading())?;
    let others = Part::ALL.into_iter().filter(|each| *each != part);
    let until = others.filter_map(|each| present.find(each.heading())).filter(|at| *at > from);
    Some(&present[from..until.min().unwrap_or(present.len())])
}

#[expect(clippy::print_stdout, reason = "the report goes to standard output")]
fn show(text: &str) {
    print!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_replaces_only_itself() {
        let of = |part: Part, text: &str| format!("{}\n{text}\n", part.heading());
        let mut report = String::new();
        for (part, text) in [(Part::Http, "a"), (Part::InProcess, "b"), (Part::Http, "c")] {
            report = replace(&report, part, &of(part, text));
        }
        let expected = [of(Part::InProcess, "b"), of(Part::Http, "c")].join("\n");
        assert_eq!(report, expected);
    }

    #[test]
    fn a_target_shows_its_figure_and_limit() {
        let mut report = Report::new(Part::Http);
        report.target("a", Some(0.5), Limit::AtMost(0.5), "x");
        report.target("b", Some(30.0), Limit::Below(30.0), " MiB");
        report.target("c", None, Limit::AtLeast(8.0), "x");
        let expected = "target: a: at most 0.5x | 0.50x | met\n\
                        target: b: below 30 MiB | 30.0 MiB | not met\n\
                        target: c: at least 8x | no figure: requests failed | not met\n";
        assert_eq!(report.targets, expected);
    }
}
