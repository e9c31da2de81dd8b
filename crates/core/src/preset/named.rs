//! Finds the layout that reads an ID: a preset, a layout of another system, or a described one.

use super::{
    Preset,
    description::{FORM, InvalidDescription},
    foreign::ForeignLayout,
};
use crate::{
    id::Id,
    layout::{Layout, LayoutSpec, Parsed, TooLong},
    violation::Violations,
};

/// A layout that can read IDs: a preset, or the layout of another system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedLayout {
    /// A preset.
    Preset(Preset, Box<Layout>),
    /// Another system's layout.
    Foreign(Box<ForeignLayout>),
}

/// Why a text names no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownLayout {
    /// There is no layout of this name.
    #[error("must be one of {}, or {FORM}", .0.join(", "))]
    Name(Vec<String>),
    /// The text has a colon, but describes no layout.
    #[error("{0}")]
    Description(#[from] InvalidDescription),
    /// The epoch cannot be used with the layout.
    #[error("{0}")]
    Epoch(#[from] Violations),
}

impl NamedLayout {
    /// Returns the layout of a name, which is built in or `configured`, or of a description.
    /// `epoch_ms` replaces its epoch; that of a description is 1970 otherwise.
    ///
    /// # Errors
    ///
    /// When the text is no name and describes no layout.
    pub fn find(
        text: &str,
        epoch_ms: Option<i64>,
        configured: &[ForeignLayout],
    ) -> Result<Self, UnknownLayout> {
        if let Some(preset) = Preset::by_name(text) {
            let spec = preset.spec();
            let epoch_ms = epoch_ms.unwrap_or(spec.epoch_ms);
            let layout = LayoutSpec { epoch_ms, ..spec }.build()?;
            return Ok(Self::Preset(preset, Box::new(layout)));
        }
        let known = || configured.iter().find(|layout| layout.name == text).cloned();
        let layout = match ForeignLayout::by_name(text).or_else(known) {
            Some(layout) => layout,
            None if text.contains(':') => ForeignLayout::described(text, text, 0)?,
            None => {
                let configured = configured.iter().map(|layout| layout.name.clone());
                let built_in = Self::names().map(str::to_owned);
                return Err(UnknownLayout::Name(built_in.chain(configured).collect()));
            }
        };
        let epoch_ms = epoch_ms.unwrap_or(layout.epoch_ms);
        Ok(Self::Foreign(Box::new(ForeignLayout { epoch_ms, ..layout })))
    }

    /// Returns the names of all built-in layouts, presets first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Preset::ALL.into_iter().map(Preset::name).chain(ForeignLayout::names())
    }

    /// Returns the name, or the description if the layout has no name.
    pub fn name(&self) -> &str {
        match self {
            Self::Preset(preset, _) => preset.name(),
            Self::Foreign(layout) => &layout.name,
        }
    }

    /// Returns the layout of a preset; `None` for another system's.
    pub fn layout(&self) -> Option<&Layout> {
        match self {
            Self::Preset(_, layout) => Some(layout),
            Self::Foreign(_) => None,
        }
    }

    /// Returns the name of the system and when it issued its first ID, if that is known to be
    /// later than the epoch.
    pub fn first(&self) -> Option<(&str, i64)> {
        match self {
            Self::Preset(..) => None,
            Self::Foreign(layout) => Some((&layout.name, layout.first_ms?)),
        }
    }

    /// Returns the fields and the instant of an ID; see [`Layout::parse`].
    ///
    /// # Errors
    ///
    /// When the ID has more bits than the layout.
    pub fn parse(&self, id: Id, now_ms: i64) -> Result<Parsed, TooLong> {
        match self {
            Self::Preset(_, layout) => layout.parse(id, now_ms),
            Self::Foreign(layout) => layout.parse(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instant::parse_unix_ms;

    fn ms(text: &str) -> i64 {
        parse_unix_ms(text).expect("an instant")
    }

    fn instant(text: &str, epoch_ms: Option<i64>, configured: &[ForeignLayout]) -> i64 {
        let layout = NamedLayout::find(text, epoch_ms, configured).expect(text);
        layout.parse(Id::new(1).expect("63 bits"), 0).expect("it fits").unix_ms
    }

    #[test]
    fn an_epoch_replaces_that_of_any_layout() {
        let epoch = ms("2020-02-02T00:00:00Z");
        let old = ForeignLayout::described("old", "time:41@1s,worker:10", 0).expect("valid");
        for (text, own) in [
            ("twitter", "2010-11-04T01:42:54.657Z"),
            ("sonyflake", "2014-09-01T00:00:00Z"),
            ("time:31@1s,sequence:32", "1970-01-01T00:00:00Z"),
            ("old", "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(instant(text, None, std::slice::from_ref(&old)), ms(own), "{text}");
            assert_eq!(instant(text, Some(epoch), std::slice::from_ref(&old)), epoch, "{text}");
        }
    }

    #[test]
    fn an_unknown_name_is_told_from_a_bad_description() {
        let old = ForeignLayout::described("old", "time:41", 0).expect("valid");
        let unknown = |text| NamedLayout::find(text, None, std::slice::from_ref(&old));
        let error = unknown("snowflake").expect_err("unknown").to_string();
        assert!(error.starts_with("must be one of raindrop, js-safe, "), "{error}");
        assert!(error.contains(", old, or a description such as time:"), "{error}");
        let error = unknown("time:41,node:10").expect_err("no field").to_string();
        assert!(error.starts_with(r#""node:10": must be a field of"#), "{error}");
    }

    #[test]
    fn improbable_timestamps_have_a_warning() {
        let warning = |text: &str, id: u64, now_ms| {
            let layout = NamedLayout::find(text, None, &[]).expect(text);
            let parsed = layout.parse(Id::new(id).expect("63 bits"), now_ms).expect("it fits");
            parsed.warning(layout.first(), now_ms)
        };
        let now_ms = ms("2026-01-01T00:00:00Z");
        // An ID of TikTok's read as Twitter's is far in the future, and a row number as TikTok's
        // or Mastodon's is from long ago.
        let tiktok = 7_510_920_131_407_000_000;
        assert_eq!(warning("tiktok", tiktok, now_ms), None);
        let future = warning("twitter", tiktok, now_ms).expect("in the future");
        assert!(future.starts_with("the timestamp 2067-") && future.ends_with("in the future"));
        assert_eq!(
            warning("mastodon", 4711, now_ms).expect("too early"),
            "the timestamp 1970-01-01T00:00:00Z is before mastodon issued its first IDs \
             (2017-10-01T00:00:00Z)"
        );
        // Clocks differ by seconds.
        let id = (10_000 + now_ms.cast_unsigned() - 1_577_836_800_000) << 22;
        assert_eq!(warning("tsid", id, now_ms), None);
        assert!(warning("tsid", id + (1 << 22), now_ms).is_some());
    }
}
