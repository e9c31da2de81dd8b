//! Layouts by name.
//!
//! A [`Preset`] is a layout that Raindrop can issue. It sets widths and epoch, but no policy. A
//! preset never changes, because IDs that were issued with it must stay readable: a correction gets
//! a new name. Layouts of other systems, whose IDs Raindrop only reads, are in [`foreign`]; each is
//! made of a [`description`]. [`NamedLayout`] finds either kind by its name.

pub mod description;
pub mod foreign;
mod named;

pub use self::named::{NamedLayout, UnknownLayout};
use crate::{
    instant::{format_unix_ms, format_unix_ms_short},
    layout::{FieldOrder, Layout, LayoutSpec, TimeUnit},
    violation::Violation,
};

/// A layout with a name that Raindrop can issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// Millisecond · 41 · worker 9 · rollback 1 · sequence 12, from 2025-01-01: the default.
    Raindrop,
    /// Millisecond · 50 · worker 5 · rollback 1 · sequence 7, from 2025-01-01: below 2^53 until
    /// 2059-11-04.
    JsSafe,
    /// Millisecond · 41 · data centre 5 · worker 5 · sequence 12, from Twitter's epoch.
    Twitter,
    /// Millisecond · 38 · worker 15 · sequence 10, from 2017-12-21 at +08:00: it ended on
    /// 2026-09-06.
    Lingdu,
    /// Millisecond · 41 · worker 10 · sequence 12, from westid's epoch.
    Westid,
    /// Millisecond · 21, wrapping · worker 5 · sequence 5: 31 bits, for WeChat's scenes.
    WestidQr,
    /// Millisecond · 51 · worker 6 · sequence 6 from 5, from yitter's epoch in Go, Java, Rust, C,
    /// C++, PHP, Python, SQL and D.
    Yitter,
    /// [`Self::Yitter`] from the C# package's epoch, 28 800.02 s later.
    YitterCsharp,
    /// [`Self::Yitter`] from the JavaScript and TypeScript packages' epoch, 2020-01-01.
    YitterJs,
    /// Millisecond · 41 · data centre 3 (machine) · worker 5 (process) · rollback 2 · sequence 12.
    Node,
    /// Millisecond · 41 · data centre 5 · worker 5 · sequence 12, from Adnc's epoch of 2021.
    AdncClassic,
    /// 10 ms · 39 · sequence 8 · worker 16, from sonyflake's first default start, 2014-09-01.
    Sonyflake,
    /// [`Self::Sonyflake`] from version 2's default start, 2025-01-01.
    SonyflakeV2,
    /// Second · 29 · data centre 5 · worker 16 · sequence 13, from 2016-09-20 at +08:00.
    BaiduUid,
    /// Second · 28 · data centre 6 · worker 16 · sequence 13, from 2016-05-20 at +08:00: it ended
    /// on 2024-11-20.
    BaiduUidDefault,
}

/// A published layout in milliseconds, without rollback and reserved bits.
const fn published(
    epoch_ms: i64,
    timestamp_bits: u32,
    data_center_bits: u32,
    worker_bits: u32,
) -> LayoutSpec {
    LayoutSpec {
        epoch_ms,
        timestamp_bits: Some(timestamp_bits),
        data_center_bits,
        worker_bits,
        rollback_bits: 0,
        exact: true,
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    }
}

const fn yitter(epoch_ms: i64) -> LayoutSpec {
    // Its sequence numbers 0 to 4 are for past times and for clocks that went back.
    LayoutSpec { min_sequence: 5, ..published(epoch_ms, 51, 0, 6) }
}

const fn sonyflake(epoch_ms: i64) -> LayoutSpec {
    LayoutSpec {
        time_unit: TimeUnit::TenMilliseconds,
        order: FieldOrder::SequenceWorker,
        ..published(epoch_ms, 39, 0, 16)
    }
}

const fn baidu_uid(epoch_ms: i64, timestamp_bits: u32, data_center_bits: u32) -> LayoutSpec {
    // Its worker id is wider: the high bits are the data centre.
    LayoutSpec {
        time_unit: TimeUnit::Second,
        ..published(epoch_ms, timestamp_bits, data_center_bits, 16)
    }
}

const OURS: LayoutSpec = LayoutSpec::for_unit(TimeUnit::Millisecond);
const WESTID_EPOCH_MS: i64 = 1_490_346_283_706;

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 15] = [
        Self::Raindrop,
        Self::JsSafe,
        Self::Twitter,
        Self::Lingdu,
        Self::Westid,
        Self::WestidQr,
        Self::Yitter,
        Self::YitterCsharp,
        Self::YitterJs,
        Self::Node,
        Self::AdncClassic,
        Self::Sonyflake,
        Self::SonyflakeV2,
        Self::BaiduUid,
        Self::BaiduUidDefault,
    ];

    /// Returns the name, the settings and the purpose of the preset.
    #[rustfmt::skip]
    const fn definition(self) -> (&'static str, LayoutSpec, &'static str) {
        match self {
            Self::Raindrop => (
                "raindrop", OURS,
                "The default: 511 nodes, 4096 IDs per node and millisecond, until 2094.",
            ),
            Self::JsSafe => (
                "js-safe", LayoutSpec { timestamp_bits: Some(50), worker_bits: 5, ..OURS },
                "IDs stay below 2^53, exact as JavaScript numbers, until 2059-11-04: 31 nodes, \
                 128 IDs per node and millisecond.",
            ),
            // github.com/twitter-archive/snowflake, IdWorker.scala
            Self::Twitter => (
                "twitter", published(1_288_834_974_657, 41, 5, 5),
                "Twitter's snowflake: data centre and worker of 5 bits each. Without a rollback \
                 bit a clock that goes back costs a worker id, or a wait.",
            ),
            // "2017-12-21", which the article means at +08:00.
            Self::Lingdu => (
                "lingdu", published(1_513_785_600_000, 38, 0, 15),
                "32 767 nodes and 1024 IDs per node and millisecond. Its own epoch ran out \
                 on 2026-09-06: old IDs parse, issuing needs another layout.epoch, from which it \
                 lasts 8.7 years.",
            ),
            // github.com/bingoohuang/westid
            Self::Westid => (
                "westid", published(WESTID_EPOCH_MS, 41, 0, 10),
                "westid's 41/10/12 bits from its own epoch, until 2086: new IDs follow the old.",
            ),
            Self::WestidQr => (
                "westid-qr",
                LayoutSpec {
                    sequence_bits: Some(5), wraps: true, ..published(WESTID_EPOCH_MS, 21, 0, 5)
                },
                "31 bits, 1 to 2^31 - 1, for WeChat's temporary QR scenes. The time wraps: an ID \
                 is unique for 2^21 ms (34 min 57 s) less rollback.hold and the differences \
                 of the nodes' clocks, and IDs do not follow time. worker.min_id must be at \
                 least 1, so that no ID is 0.",
            ),
            // github.com/yitter/IdGenerator
            Self::Yitter => (
                "yitter", yitter(1_582_136_402_000),
                "yitter's default 6/6 bits with its epoch in Go, Java, Rust, C, C++, PHP, Python, \
                 SQL and D: below 2^53 until 2089, 63 nodes, 59 IDs per node and millisecond.",
            ),
            Self::YitterCsharp => (
                "yitter-csharp", yitter(1_582_165_202_020),
                "yitter's default with the C# package's epoch, 8 hours and 20 ms after the \
                 others'.",
            ),
            Self::YitterJs => (
                "yitter-js", yitter(1_577_836_800_000),
                "yitter's default with the JavaScript and TypeScript packages' epoch, 2020-01-01.",
            ),
            Self::Node => (
                "node",
                LayoutSpec { rollback_bits: 2, ..published(1_580_486_400_000, 41, 3, 5) },
                "The Node.js article's 41/3/5/2/12 bits: machine is the data centre, process the \
                 worker id; the four values of its rollback counter are four lanes.",
            ),
            // github.com/AlphaYu/Adnc, before it took yitter's
            Self::AdncClassic => (
                "adnc-classic", published(1_577_808_000_000, 41, 5, 5),
                "Adnc's own snowflake of 2021: data centre and worker of 5 bits each, from \
                 2020-01-01 at +08:00 until 2089.",
            ),
            // github.com/sony/sonyflake, version 1, with its default StartTime
            Self::Sonyflake => (
                "sonyflake", sonyflake(1_409_529_600_000),
                "sonyflake's 39/8/16 bits with the default start of version 1, until 2188: 65 535 \
                 nodes, 256 IDs per node and 10 ms. The sequence is above the worker id.",
            ),
            // v2/sonyflake.go with its default StartTime
            Self::SonyflakeV2 => (
                "sonyflake-v2", sonyflake(1_735_689_600_000),
                "sonyflake's 39/8/16 bits with the default start of version 2, 2025-01-01, until \
                 2199.",
            ),
            // github.com/baidu/uid-generator: the configuration that its README shows, with
            // epochStr 2016-09-20, which is midnight in the zone of the JVM: here +08:00
            Self::BaiduUid => (
                "baidu-uid", baidu_uid(1_474_300_800_000, 29, 5),
                "UidGenerator as its README configures it, 29/21/13 bits, until 2033: the high 5 \
                 bits of its worker id are the data centre.",
            ),
            // DefaultUidGenerator's own fields, with its epochSeconds: 2016-05-20 at +08:00
            Self::BaiduUidDefault => (
                "baidu-uid-default", baidu_uid(1_463_673_600_000, 28, 6),
                "The defaults of UidGenerator's code, 28/22/13 bits: the high 6 bits of its worker \
                 id are the data centre. Its own epoch ran out on 2024-11-20: old IDs parse, \
                 issuing needs another layout.epoch, from which it lasts 8.5 years.",
            ),
        }
    }

    /// Returns the name in configuration.
    pub const fn name(self) -> &'static str {
        self.definition().0
    }

    /// Returns the purpose and the promise of the preset, in a sentence or two.
    pub const fn describe(self) -> &'static str {
        self.definition().2
    }

    /// Returns the preset of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Checks that the preset can still issue from its own epoch, for use without another one.
    ///
    /// # Errors
    ///
    /// When its timestamp ran out; the error names the last instant and the remedy.
    pub fn check_own_epoch(self) -> Result<(), Violation> {
        if !matches!(self, Self::Lingdu | Self::BaiduUidDefault) {
            return Ok(());
        }
        let layout = self.layout();
        let allowed = format!(
            "used with another layout.epoch: from its own, {}, the timestamp ran out, and the \
             last instant was {}; old IDs can still be parsed",
            format_unix_ms_short(layout.epoch_ms()),
            format_unix_ms(layout.valid_until_ms() - 1),
        );
        Err(Violation::new("layout.preset", self.name(), allowed))
    }

    /// Returns the layout with the preset's epoch.
    pub fn layout(self) -> Layout {
        self.spec().build().expect("every preset is valid, as a test holds")
    }

    /// Returns the settings. A configuration may change only the epoch, the data centre, the
    /// initial lane and the reserved value.
    pub fn spec(self) -> LayoutSpec {
        self.definition().1
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
