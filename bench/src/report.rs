//! Tables, conditions and targets: printed, and kept in `target/bench/report.md`.
//!
//! Each benchmark owns one part of that file and replaces it alone.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use crate::machine;

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

    const fn title(self) -> &'static str {
        match self {
            Self::InProcess => "In the process",
            Self::Http => "Over HTTP",
        }
    }

    const fn command(self) -> &'static str {
        match self {
            Self::InProcess => "make bench",
            Self::Http => "make bench-http",
        }
    }

    const fn file_name(self) -> &'static str {
        match self {
            Self::InProcess => "in-process.md",
            Self::Http => "http.md",
        }
    }

    fn heading(self) -> String {
        format!("# {} (`{}`)\n", self.title(), self.command())
    }
}

/// What one benchmark found.
#[derive(Debug)]
pub struct Report {
    part: Part,
    text: String,
    targets: String,
    copy: Option<PathBuf>,
}

impl Report {
    /// An empty report, which names the machine.
    pub fn new(part: Part) -> Self {
        let text = format!("{}\n{}.\n", part.heading(), machine::describe());
        Self { part, text, targets: String::new(), copy: None }
    }

    /// Writes a copy of this part into a folder too, as `in-process.md` or `http.md`.
    pub fn copy_into(&mut self, folder: &Path) {
        self.copy = Some(folder.join(self.part.file_name()));
    }

    /// Adds a table: `conditions` say how its rows were measured, `head` names its columns.
    ///
    /// # Panics
    ///
    /// If a row is not as wide as the head.
    pub fn section(&mut self, title: &str, conditions: &str, head: &[&str], rows: &[Vec<String>]) {
        let width = head.len();
        assert!(rows.iter().all(|row| row.len() == width), "{title}: every row has {width} cells");
        let mut text = format!("\n## {title}\n\n{conditions}\n\n");
        let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
        text.push_str(&line(head));
        // Words to the left, figures to the right.
        let is_figure =
            |cell: &str| cell.starts_with(|first: char| first.is_ascii_digit() || first == '–');
        let is_figures = |at: &usize| rows.iter().all(|row| is_figure(&row[*at]));
        let rule: Vec<_> =
            (0..width).map(|at| if is_figures(&at) { "---:" } else { "---" }).collect();
        text.push_str(&line(&rule));
        for row in rows {
            text.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
        }
        show(&text);
        self.text.push_str(&text);
    }

    /// Adds the line of a target: what it demands, the figure that was found, and whether that
    /// meets it.
    pub fn target(&mut self, what: &str, figure: &str, met: bool) {
        let met = if met { "met" } else { "not met" };
        writeln!(self.targets, "target: {what} | {figure} | {met}").expect("a string takes it");
    }

    /// Adds the line of a target that allows a ratio of at most `most`.
    pub fn target_at_most(&mut self, what: &str, ratio: f64, most: f64) {
        self.target(&format!("{what}: at most {most}x"), &format!("{ratio:.2}x"), ratio <= most);
    }

    /// Adds the line of a target that demands a ratio of at least `least`.
    pub fn target_at_least(&mut self, what: &str, ratio: f64, least: f64) {
        self.target(&format!("{what}: at least {least}x"), &format!("{ratio:.2}x"), ratio >= least);
    }

    /// Prints the targets and writes this part of `target/bench/report.md`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub fn finish(mut self) -> io::Result<()> {
        let targets = format!("\n## Targets\n\n```text\n{}```\n", self.targets);
        show(&targets);
        self.text.push_str(&targets);

        if let Some(copy) = self.copy {
            fs::create_dir_all(copy.parent().expect("the file is in a folder"))?;
            fs::write(copy, &self.text)?;
        }
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/bench/report.md");
        fs::create_dir_all(path.parent().expect("the file is in a folder"))?;
        let present = match fs::read_to_string(&path) {
            Ok(present) => present,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        fs::write(&path, replaced(&present, self.part, &self.text))?;
        show("\nWritten to target/bench/report.md.\n");
        Ok(())
    }
}

/// The report with one part replaced, in the order of [`Part::ALL`].
fn replaced(present: &str, part: Part, text: &str) -> String {
    let parts = Part::ALL.map(|each| {
        if each == part { Some(text.trim()) } else { part_of(present, each).map(str::trim) }
    });
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!("{}\n", parts.join("\n\n"))
}

fn part_of(present: &str, part: Part) -> Option<&str> {
    let from = present.find(&part.heading())?;
    let others = Part::ALL.into_iter().filter(|each| *each != part);
    let until = others.filter_map(|each| present.find(&each.heading())).filter(|at| *at > from);
    Some(&present[from..until.min().unwrap_or(present.len())])
}

#[expect(clippy::print_stdout, reason = "the figures are the result")]
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
            report = replaced(&report, part, &of(part, text));
        }
        let expected = [of(Part::InProcess, "b"), of(Part::Http, "c")].join("\n");
        assert_eq!(report, expected);
    }
}
