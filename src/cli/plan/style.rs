//! Colours, where a terminal shows them.

use super::facts::Part;

/// Whether texts are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Coloured,
}

impl Style {
    /// A text in the colour of a part.
    pub(super) fn part(self, part: Part, text: &str) -> String {
        let code = match part {
            Part::Unused => "2",
            Part::Timestamp => "1;34",
            Part::DataCenter => "1;35",
            Part::Worker => "1;32",
            Part::Rollback => "1;33",
            Part::Sequence => "1;36",
            Part::Reserved => "1;31",
        };
        self.paint(code, text)
    }

    pub(super) fn heading(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(super) fn alarm(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}
