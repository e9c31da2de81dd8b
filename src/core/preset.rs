//! Layouts by name. A preset brings widths and epoch, no policies, and never changes: a
//! correction is a new name.

use crate::core::layout::{LayoutSpec, TimeUnit};

/// A layout with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Millisecond · 41 · worker 9 · rollback 1 · sequence 12, from 2025-01-01: the default.
    Raindrop,
    /// Millisecond · 50 · worker 5 · rollback 1 · sequence 7, from 2025-01-01: below 2^53 until
    /// 2059-11-04.
    JsSafe,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 2] = [Self::Raindrop, Self::JsSafe];

    /// Its name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raindrop => "raindrop",
            Self::JsSafe => "js-safe",
        }
    }

    /// The preset of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Its settings.
    pub const fn spec(self) -> LayoutSpec {
        let default = LayoutSpec::for_unit(TimeUnit::Millisecond);
        match self {
            Self::Raindrop => default,
            Self::JsSafe => LayoutSpec { timestamp_bits: Some(50), worker_bits: 5, ..default },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{id::Id, instant::parse_unix_ms};

    #[test]
    fn presets_have_their_published_widths() {
        let words = |preset: Preset| preset.spec().build().expect("valid").words();
        assert_eq!(
            words(Preset::Raindrop),
            "unit=millisecond epoch=2025-01-01T00:00:00Z timestamp=41 data_center=0 worker=9 \
             rollback=1 sequence=12 reserved=0 min_sequence=0 max_sequence=4095"
        );
        assert_eq!(
            words(Preset::JsSafe),
            "unit=millisecond epoch=2025-01-01T00:00:00Z timestamp=50 data_center=0 worker=5 \
             rollback=1 sequence=7 reserved=0 min_sequence=0 max_sequence=127"
        );
    }

    #[test]
    fn js_safe_stays_below_2_to_the_53_until_november_2059() {
        let layout = Preset::JsSafe.spec().build().expect("valid");
        let largest_before = |date: &str| {
            let tick = layout.tick_in_range(parse_unix_ms(date).expect("a date")).expect("fits");
            let composer = layout.composer(layout.largest_worker(), 1).expect("fits");
            composer.compose(layout.first_position(tick) - 1)
        };
        assert!(largest_before("2059-11-04T00:00:00Z") <= Id::MAX_JS_SAFE);
        assert!(largest_before("2059-11-05T00:00:00Z") > Id::MAX_JS_SAFE);
    }
}
