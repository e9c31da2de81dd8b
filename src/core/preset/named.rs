//! One look-up for every layout with a name.

use super::{Preset, foreign::ForeignLayout};
use crate::core::{
    id::Id,
    layout::{Layout, Parsed, TooLong},
};

/// A layout that IDs are read by: a preset, or another system's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedLayout {
    /// A preset with its own epoch.
    Preset(Preset, Box<Layout>),
    /// Another system's layout.
    Foreign(&'static ForeignLayout),
}

impl NamedLayout {
    /// The layout of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        match Preset::by_name(name) {
            Some(preset) => Some(Self::Preset(preset, Box::new(preset.layout()))),
            None => ForeignLayout::by_name(name).map(Self::Foreign),
        }
    }

    /// Every name, presets first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let foreign = ForeignLayout::ALL.iter().map(|layout| layout.name);
        Preset::ALL.into_iter().map(Preset::name).chain(foreign)
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Preset(preset, _) => preset.name(),
            Self::Foreign(layout) => layout.name,
        }
    }

    /// The layout that Raindrop could issue by; another system's has none.
    pub fn layout(&self) -> Option<&Layout> {
        match self {
            Self::Preset(_, layout) => Some(layout),
            Self::Foreign(_) => None,
        }
    }

    /// The fields and the instant of an ID; see [`Layout::parse`].
    ///
    /// # Errors
    ///
    /// When the ID has more bits than the layout.
    pub fn parse(&self, id: Id, now_ms: i64) -> Result<Parsed, TooLong> {
        match self {
            Self::Preset(_, layout) => layout.parse(id, now_ms),
            Self::Foreign(layout) => Ok(layout.parse(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{encoding::Encoding, instant::format_unix_ms_short};

    #[test]
    fn every_name_is_found_and_stands_once() {
        let names: Vec<_> = NamedLayout::names().collect();
        assert_eq!(names.len(), 19);
        for (index, name) in names.iter().enumerate() {
            assert_eq!(NamedLayout::by_name(name).expect("known").name(), *name);
            assert!(!names[..index].contains(name));
        }
        assert_eq!(NamedLayout::by_name("Discord"), None);
    }

    #[test]
    fn the_documentation_lists_every_name_with_its_widths_and_epoch() {
        let documented = include_str!("../../../docs/layouts.md");
        for preset in Preset::ALL {
            let layout = preset.layout();
            let w = layout.widths();
            let (name, epoch) = (preset.name(), format_unix_ms_short(layout.epoch_ms()));
            let widths = [w.timestamp, w.data_center, w.worker, w.rollback, w.sequence, w.reserved];
            let widths = widths.map(|bits| bits.to_string()).join(" · ");
            let row = format!("| `{name}` | {widths} | {epoch} |");
            assert!(documented.contains(&row), "{row}");
        }
        for layout in ForeignLayout::ALL {
            let row =
                documented.lines().find(|line| line.starts_with(&format!("| `{}`", layout.name)));
            let row = row.unwrap_or_else(|| panic!("{} is missing", layout.name));
            for field in &layout.fields[1..] {
                assert!(row.contains(&format!("{} {}", field.name, field.bits)), "{row}");
            }
            assert!(row.contains(&format!(" {} ", layout.fields[0].bits)), "{row}");
            assert!(
                row.ends_with(&format!("| {} |", format_unix_ms_short(layout.epoch_ms))),
                "{row}"
            );
        }
        for encoding in Encoding::ALL {
            assert!(documented.contains(&format!("| `{encoding}` |")), "{encoding}");
        }
    }
}
