//! The settings of a managed code and their text in the store.

use std::fmt;

use super::{SegmentSpec, spec::STRICT};
use crate::violation::Violations;

/// The settings of a code that operators manage while the service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSettings {
    /// How the code counts and reserves.
    pub spec: SegmentSpec,
    /// Whether an operator retired the code. A retired code never issues again.
    pub is_retired: bool,
}

/// Why the text of settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnreadableSettings {
    /// This version does not know a word; a newer version may have written it.
    #[error("{0:?} is not a setting of this version")]
    UnknownWord(String),
    /// A setting is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The settings contradict each other.
    #[error("{0}")]
    Invalid(Violations),
}

/// The name of the form of the code's texts; a code of plain numbers has none.
const TEXT: &str = "text";

/// The name of the code's own gap; a code without one has that of its namespace.
const FAILOVER_GAP: &str = "failover_gap";

/// The word that marks a retired code.
const RETIRED: &str = "retired";

impl CodeSettings {
    /// Returns the settings of a code that is in use.
    pub const fn of(spec: SegmentSpec) -> Self {
        Self { spec, is_retired: false }
    }

    /// The largest length of a text, in bytes.
    pub const LONGEST: usize = 255;

    /// Reads the text that [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    ///
    /// See [`UnreadableSettings`]. An unknown word is an error, because a newer version may have
    /// written it and depend on it.
    pub fn parse(text: &str) -> Result<Self, UnreadableSettings> {
        let mut spec = SegmentSpec::default();
        let mut is_retired = false;
        let mut missing = spec.fields().map(|(name, _)| name).to_vec();
        for word in text.split_ascii_whitespace() {
            match word {
                RETIRED => {
                    is_retired = true;
                    continue;
                }
                STRICT => {
                    spec.strict = true;
                    continue;
                }
                _ => {}
            }
            let unknown = || UnreadableSettings::UnknownWord(word.to_owned());
            let (name, value) = word.split_once('=').ok_or_else(unknown)?;
            if name == TEXT {
                spec.text = Some(value.parse().map_err(|_| unknown())?);
                continue;
            }
            if name == FAILOVER_GAP {
                spec.failover_gap = Some(value.parse().map_err(|_| unknown())?);
                continue;
            }
            *spec.field_mut(name).ok_or_else(unknown)? = value.parse().map_err(|_| unknown())?;
            missing.retain(|missing| *missing != name);
        }
        if let Some(name) = missing.first() {
            return Err(UnreadableSettings::Missing(name));
        }
        spec.check().map_err(UnreadableSettings::Invalid)?;
        Ok(Self { spec, is_retired })
    }
}

/// Writes the canonical text, such as `start=1 min_step=1000 …`.
impl fmt::Display for CodeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)?;
        if self.is_retired { write!(f, " {RETIRED}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::TextForm;

    #[test]
    fn settings_survive_their_text() {
        let largest = SegmentSpec {
            start: SegmentSpec::LARGEST_NUMBER - SegmentSpec::LARGEST,
            min_step: SegmentSpec::LARGEST,
            max_step: SegmentSpec::LARGEST,
            increment: SegmentSpec::LARGEST,
            remainder: SegmentSpec::LARGEST - 1,
            max: SegmentSpec::LARGEST_NUMBER,
            text: None,
            failover_gap: None,
            strict: false,
        };
        let longest = "x".repeat(TextForm::LONGEST - "{n:019}".len()) + "{n:019}";
        let texts = ["INV/{n:06}-a._:", &longest].map(|text| text.parse().expect("a form"));
        let with_text = texts.map(|text| SegmentSpec { text: Some(text), ..largest });
        let specs: Vec<_> =
            [SegmentSpec::default(), largest].into_iter().chain(with_text).collect();
        let with_gap = specs.iter().flat_map(|spec| {
            let start = 10_u64.pow(18);
            [0, (spec.max - start) / spec.increment - 1].map(|gap| SegmentSpec {
                failover_gap: Some(gap),
                start,
                ..*spec
            })
        });
        for spec in specs.iter().copied().chain(with_gap) {
            for (is_retired, strict) in [(false, false), (true, false), (false, true), (true, true)]
            {
                let settings = CodeSettings { spec: SegmentSpec { strict, ..spec }, is_retired };
                let text = settings.to_string();
                assert!(text.len() <= CodeSettings::LONGEST, "{text}");
                assert_eq!(CodeSettings::parse(&text), Ok(settings), "{text}");
            }
        }
        let text = CodeSettings { spec: SegmentSpec::default(), is_retired: true }.to_string();
        assert_eq!(
            text,
            "start=1 min_step=1000 max_step=1000000 increment=1 remainder=0 \
             max=9223372036854775806 retired"
        );
    }

    #[test]
    fn settings_of_a_newer_version_are_not_guessed() {
        let text = CodeSettings { spec: SegmentSpec::default(), is_retired: false }.to_string();
        let refused = |text: &str| CodeSettings::parse(text).expect_err("refused").to_string();
        assert!(refused(&format!("{text} colour=7")).contains("colour=7"));
        assert!(refused(&format!("{text} paused")).contains("paused"));
        assert!(refused(&text.replace("min_step=1000 ", "")).contains("min_step is missing"));
        assert!(refused(&text.replace("=1000 ", "=x ")).contains("min_step=x"));
        assert!(refused(&text.replace("increment=1", "increment=0")).contains("increment"));
        assert!(refused(&format!("{text} text=INV-{{m}}")).contains("text=INV-{m}"));
        assert!(refused(&format!("{text} failover_gap=-1")).contains("failover_gap=-1"));
        assert!(refused("").contains("start is missing"));
    }
}
