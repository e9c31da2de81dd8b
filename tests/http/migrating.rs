//! The configuration files of `docs/examples`: each is loaded as the service loads it, and the IDs
//! that it issues cannot equal those of the system that it replaces.

use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc};

use raindrop::{
    config::{Config, Inputs},
    core::{
        clock::ManualClock,
        id::Id,
        instant::{format_unix_ms, parse_unix_ms},
        issue::Generator,
        layout::{LayoutSpec, TimeUnit},
        preset::{NamedLayout, Preset},
    },
    keeper::KeeperSettings,
};

use Apart::{Ahead, DataCenter, Reserved, Time, Worker};

/// What keeps old and new IDs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Apart {
    /// Worker ids that no old process had.
    Worker,
    /// A data centre that no old process had.
    DataCenter,
    /// The value of the reserved bits.
    Reserved,
    /// New IDs are above the old ones.
    Time,
    /// New IDs are above the IDs that the old system issues this many days later.
    Ahead(i64),
}

/// An ID that the old system issued or published: (ID, instant, data centre, worker).
type Recorded = (u64, &'static str, u64, u64);

/// A namespace of a file, and the system that it replaces.
struct Replaced {
    file: &'static str,
    namespace: &'static str,
    /// The layout that old IDs are read by, if it is not the file's own.
    reads: Option<&'static str>,
    apart: &'static [Apart],
    /// The old system's unit and epoch in milliseconds, and the bits below its time.
    old: (i64, i64, u32),
    recorded: &'static [Recorded],
}

const TWITTER_EPOCH_MS: i64 = 1_288_834_974_657;
/// When the old systems are replaced, after every recorded ID.
const CHANGE: &str = "2026-12-01T00:00:00Z";
const GO_EPOCH_MS: i64 = 1_672_502_400_000;
const YITTER: (i64, i64, u32) = (1, 1_582_136_402_000, 12);
const YITTER_CSHARP: (i64, i64, u32) = (1, 1_582_165_202_020, 12);
const WESTID_EPOCH_MS: i64 = 1_490_346_283_706;

const ADNC_RECORDED: &[Recorded] = &[
    (184_971_260_575_813, "2021-07-26T18:30:01.184Z", 0, 1),
    (294_807_880_151_109, "2022-06-02T03:16:22.135Z", 0, 1),
    (151_599_672_553_541, "2021-04-23T11:20:40.827Z", 0, 1),
];

#[rustfmt::skip]
const REPLACED: [Replaced; 22] = [
    Replaced {
        file: "raindrop-go", namespace: "default", reads: None, apart: &[Time],
        old: (1, GO_EPOCH_MS, 22),
        recorded: &[(115_333_294_188_920_832, "2023-11-14T22:13:20.123Z", 0, 10)],
    },
    Replaced {
        file: "raindrop-go-running", namespace: "default", reads: None, apart: &[Reserved, Time],
        old: (1, GO_EPOCH_MS, 13),
        recorded: &[(225_260_340_212_736, "2023-11-14T22:13:20.123Z", 0, 10)],
    },
    Replaced {
        file: "lingdu", namespace: "default", reads: Some("lingdu"), apart: &[Worker],
        old: (1, 1_513_785_600_000, 25),
        recorded: &[
            (2_892_875_222_220_800_000, "2020-09-13T12:26:40Z", 0, 0),
            (2_892_875_222_233_441_347, "2020-09-13T12:26:40Z", 0, 12_345),
        ],
    },
    Replaced {
        file: "westid", namespace: "default", reads: None, apart: &[Worker, Time],
        old: (1, WESTID_EPOCH_MS, 22),
        recorded: &[
            (1_415_384_785_396_004, "2017-03-28T06:48:57.735Z", 0, 426),
            (4_194_304, "2017-03-24T09:04:43.707Z", 0, 0),
        ],
    },
    Replaced {
        file: "westid", namespace: "scene", reads: None, apart: &[Worker],
        old: (1, WESTID_EPOCH_MS, 10),
        recorded: &[(1_465_194_880, "2023-11-14T22:13:20Z", 0, 12)],
    },
    Replaced {
        file: "yitter", namespace: "default", reads: None, apart: &[Worker, Time],
        old: YITTER,
        recorded: &[
            (129_053_495_681_099, "2021-02-18T10:20:03.094Z", 0, 1),
            (387_750_301_904_971, "2023-02-19T10:20:03.051Z", 0, 1),
            (646_093_214_093_387, "2025-02-18T10:20:03.097Z", 0, 1),
        ],
    },
    Replaced {
        file: "adnc", namespace: "default", reads: None, apart: &[Worker, Time],
        old: YITTER_CSHARP, recorded: ADNC_RECORDED,
    },
    Replaced {
        file: "adnc", namespace: "usr", reads: None, apart: &[Worker, Time],
        old: YITTER_CSHARP, recorded: ADNC_RECORDED,
    },
    Replaced {
        file: "node", namespace: "default", reads: None, apart: &[DataCenter, Time],
        old: (1, 1_580_486_400_000, 22),
        recorded: &[
            (501_276_370_534_957_056, "2023-11-14T22:13:20Z", 1, 2),
            (501_276_370_538_594_303, "2023-11-14T22:13:20Z", 7, 31),
        ],
    },
    Replaced {
        file: "leaf", namespace: "default", reads: None, apart: &[Worker, Time],
        old: (1, TWITTER_EPOCH_MS, 22),
        recorded: &[(1_169_786_042_799_259_000, "2019-09-06T01:35:00.834Z", 0, 39)],
    },
    Replaced {
        file: "baidu-uid-larger", namespace: "default", reads: Some("baidu-uid"), apart: &[Time],
        old: (1_000, 1_474_300_800_000, 34),
        recorded: &[(180_363_646_902_239_241, "2017-01-19T04:15:46Z", 0, 4)],
    },
    Replaced {
        file: "baidu-uid", namespace: "default", reads: None, apart: &[DataCenter, Time],
        old: (1_000, 1_474_300_800_000, 34),
        recorded: &[
            (180_363_646_902_239_241, "2017-01-19T04:15:46Z", 0, 4),
            // Worker id 70 004
            (5_517_179_250_868_649_984, "2026-11-23T14:08:19Z", 1, 4_468),
        ],
    },
    Replaced {
        file: "sonyflake", namespace: "default", reads: None, apart: &[Worker, Time],
        old: (10, 1_409_529_600_000, 24),
        recorded: &[
            (647_455_064_994_138_021, "2026-11-23T14:08:11.570Z", 0, 51_109),
            (647_455_067_524_351_909, "2026-11-23T14:08:13.070Z", 0, 51_109),
        ],
    },
    Replaced {
        file: "hutool", namespace: "default", reads: None, apart: &[DataCenter, Time],
        old: (1, TWITTER_EPOCH_MS, 22),
        recorded: &[
            (2_124_864_833_848_758_272, "2026-11-23T13:57:09.126Z", 3, 5),
            (2_124_864_840_349_929_502, "2026-11-23T13:57:10.676Z", 3, 5),
        ],
    },
    Replaced {
        file: "mybatis-plus", namespace: "default", reads: Some("twitter"), apart: &[Ahead(364)],
        old: (1, TWITTER_EPOCH_MS, 22),
        recorded: &[
            (2_124_864_867_948_154_881, "2026-11-23T13:57:17.256Z", 0, 29),
            (2_124_864_874_369_634_306, "2026-11-23T13:57:18.787Z", 0, 29),
        ],
    },
    // Hutool's with ids from MAC and PID.
    Replaced {
        file: "mybatis-plus", namespace: "default", reads: Some("twitter"), apart: &[Ahead(364)],
        old: (1, TWITTER_EPOCH_MS, 22),
        recorded: &[
            (2_124_864_852_266_180_608, "2026-11-23T13:57:13.517Z", 4, 30),
            (2_124_864_857_500_672_030, "2026-11-23T13:57:14.765Z", 4, 30),
        ],
    },
    Replaced {
        file: "cosid", namespace: "default", reads: None, apart: &[Worker, Time],
        old: (1, 1_577_203_200_000, 22),
        recorded: &[
            (915_360_884_409_266_177, "2026-11-23T13:57:21.426Z", 0, 7),
            (915_360_890_319_041_503, "2026-11-23T13:57:22.835Z", 0, 7),
        ],
    },
    Replaced {
        file: "bwmarrin", namespace: "default", reads: None, apart: &[Worker, Time],
        old: (1, TWITTER_EPOCH_MS, 22),
        recorded: &[
            (2_124_864_933_148_585_984, "2026-11-23T13:57:32.801Z", 0, 23),
            (2_124_864_939_637_174_302, "2026-11-23T13:57:34.348Z", 0, 23),
        ],
    },
    Replaced {
        file: "katsubushi", namespace: "default", reads: None, apart: &[Worker, Time],
        old: (1, 1_420_070_400_000, 22),
        recorded: &[
            (1_574_423_678_542_745_600, "2026-11-23T13:57:36.342Z", 0, 17),
            (1_574_423_684_964_225_024, "2026-11-23T13:57:37.873Z", 0, 17),
        ],
    },
    Replaced {
        file: "tsid", namespace: "default", reads: Some("tsid"), apart: &[Ahead(364)],
        old: (1, 1_577_836_800_000, 22),
        recorded: &[
            (912_703_389_324_128_078, "2026-11-23T13:57:25.223Z", 0, 858),
            (912_703_405_614_383_350, "2026-11-23T13:57:29.107Z", 0, 756),
        ],
    },
    Replaced {
        file: "sonyflake-larger", namespace: "default", reads: Some("sonyflake"), apart: &[Ahead(6_200)],
        old: (10, 1_409_529_600_000, 24),
        recorded: &[
            (647_454_005_160_626_085, "2026-11-23T13:57:39.860Z", 0, 51_109),
            (647_454_007_709_321_125, "2026-11-23T13:57:41.370Z", 0, 51_109),
        ],
    },
    Replaced {
        file: "sonyflake-larger", namespace: "default", reads: Some("sonyflake-v2"),
        apart: &[Ahead(9_900)],
        old: (10, 1_735_689_600_000, 24),
        recorded: &[
            (100_248_334_110_883_839, "2026-11-23T13:57:43.440Z", 0, 65_535),
            (100_248_336_654_073_855, "2026-11-23T13:57:44.950Z", 0, 65_535),
        ],
    },
];

/// Files with a namespace of numbers that `raindrop codes import` takes over. The test of that
/// command uses them.
const IMPORTED: [(&str, &str); 3] =
    [("cosid", "segments"), ("leaf-segments", "default"), ("tinyid", "default")];

fn ms(instant: &str) -> i64 {
    parse_unix_ms(instant).expect("an instant")
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples"))
}

fn load(name: &str) -> Config {
    let file = folder().join(format!("{name}.toml"));
    let config = Config::load(&Inputs { file: Some(file), ..Inputs::default() });
    config.unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn settings_of(replaced: &Replaced) -> KeeperSettings {
    let config = load(replaced.file);
    let mut keepers = config.keepers();
    keepers.find(|keeper| keeper.namespace == replaced.namespace).expect("the namespace").clone()
}

/// Returns the IDs of the file's settings at an instant, with the smallest and the largest worker
/// id.
fn issued(settings: &KeeperSettings, now_ms: i64) -> Vec<Id> {
    let clock = Arc::new(ManualClock::new(now_ms));
    let of = |worker| {
        let clock = clock.clone();
        let generator =
            Generator::with_worker(settings.layout.clone(), worker, &settings.issue, clock);
        let claim = generator.expect("the worker id fits").claim("order", 20);
        claim.expect("an idle code").ids.collect::<Vec<Id>>()
    };
    [of(settings.min_worker), of(settings.max_worker)].concat()
}

#[test]
fn every_file_is_tested() {
    let files: BTreeSet<String> = fs::read_dir(folder())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    let replaced = REPLACED.iter().map(|replaced| replaced.file);
    let imported = IMPORTED.iter().map(|(file, _)| *file);
    let tested: BTreeSet<String> =
        replaced.chain(imported).map(|file| format!("{file}.toml")).collect();
    assert_eq!(files, tested);
    for document in ["docs/migrating.md", "docs/migrating.zh-CN.md"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(document);
        let text = fs::read_to_string(path).expect(document);
        for file in &files {
            assert!(text.contains(&format!("(examples/{file})")), "{document}: {file}");
        }
    }
}

#[test]
fn old_ids_parse_in_the_layout_of_the_file() {
    for replaced in &REPLACED {
        let settings = settings_of(replaced);
        for &(id, instant, data_center, worker) in replaced.recorded {
            let id = Id::new(id).expect("63 bits");
            let unix_ms = ms(instant);
            let parsed =
                match replaced.reads.map(|name| NamedLayout::find(name, None, &[]).expect("known"))
                {
                    Some(layout) => layout.parse(id, unix_ms),
                    None => settings.layout.parse(id, unix_ms),
                };
            let parsed = parsed.expect("it fits");
            assert_eq!(parsed.unix_ms, unix_ms, "{}", replaced.file);
            assert_eq!(
                (parsed.fields.data_center, parsed.fields.worker),
                (data_center, worker),
                "{}",
                replaced.file
            );
        }
    }
}

#[test]
fn new_ids_cannot_equal_old_ones() {
    let change = ms(CHANGE);
    for replaced in &REPLACED {
        let settings = settings_of(replaced);
        let new = issued(&settings, change);
        let fields: Vec<_> = new.iter().map(|id| settings.layout.decompose(*id)).collect();
        let old = replaced.recorded;
        for apart in replaced.apart {
            let name = format!("{} {} {apart:?}", replaced.file, replaced.namespace);
            match apart {
                Worker => {
                    let largest = old.iter().map(|(.., worker)| *worker).max();
                    assert!(Some(settings.min_worker) > largest, "{name}");
                    assert!(fields.iter().all(|new| Some(new.worker) > largest), "{name}");
                }
                DataCenter => {
                    let is_new = |center| old.iter().all(|(_, _, used, _)| *used != center);
                    assert!(fields.iter().all(|new| is_new(new.data_center)), "{name}");
                }
                Reserved => {
                    let bits = settings.layout.widths().reserved;
                    let value = |id: u64| id & ((1 << bits) - 1);
                    let is_new =
                        |new: &Id| old.iter().all(|(id, ..)| value(*id) != value(new.get()));
                    assert!(bits > 0 && new.iter().all(is_new), "{name}");
                }
                Time => above(replaced, &settings, change, 0, &name),
                Ahead(days) => above(replaced, &settings, change, days * 86_400_000, &name),
            }
        }
    }
}

/// Their worker 0 may be one that an old process has.
#[test]
fn ids_for_a_past_time_wait_for_the_end_of_a_system_that_runs_beside() {
    let change = ms(CHANGE);
    let mut found = Vec::new();
    for replaced in REPLACED.iter().filter(|replaced| replaced.apart.contains(&Worker)) {
        let settings = settings_of(replaced);
        if settings.layout.backfill_per_tick() > 0 {
            found.push(replaced.file);
            assert!(settings.backfill_from_ms > Some(change), "{}", replaced.file);
        }
    }
    assert_eq!(found, ["yitter", "adnc", "adnc"]);
}

/// At each instant from `change` on, every new ID is above every one that the old system issued
/// until then, or issues until `lead_ms` later.
fn above(replaced: &Replaced, settings: &KeeperSettings, change: i64, lead_ms: i64, name: &str) {
    let (unit_ms, epoch_ms, below_time) = replaced.old;
    let end_of_use = ms("2028-01-01T00:00:00Z");
    for now_ms in [change, change + 86_400_000, (change + end_of_use) / 2, end_of_use] {
        let ticks = (now_ms + lead_ms).div_euclid(unit_ms) - epoch_ms.div_euclid(unit_ms);
        let first_of_the_tick = u64::try_from(ticks).expect("after the epoch") << below_time;
        let largest_old = first_of_the_tick - 1;
        assert!(replaced.recorded.iter().all(|(id, ..)| *id < largest_old), "{name}");
        let smallest_new = *issued(settings, now_ms).iter().min().expect("some");
        assert!(largest_old < smallest_new.get(), "{name}: {largest_old} {smallest_new}");
        let bounds = settings.layout.bounds(now_ms, now_ms).expect("inside the layout");
        assert!(largest_old < bounds.from.get(), "{name}: no worker or lane is below");
    }
}

#[test]
fn last_ids_of_lingdu_leave_no_larger_ids() {
    let preset = Preset::Lingdu.layout();
    let last = preset.parse(Id::MAX, 0).expect("63 bits");
    assert_eq!(last.unix_ms, preset.valid_until_ms() - 1);
    let lingdu = REPLACED.iter().find(|replaced| replaced.file == "lingdu").expect("above");
    let new = issued(&settings_of(lingdu), ms(CHANGE));
    let smallest_old = lingdu.recorded.iter().map(|(id, ..)| *id).min();
    assert!(new.iter().all(|id| Some(id.get()) < smallest_old), "order is what the change costs");
}

#[test]
fn files_state_how_long_their_layouts_last() {
    let mut told = 0;
    for replaced in &REPLACED {
        let path = folder().join(format!("{}.toml", replaced.file));
        let text = fs::read_to_string(path).expect("a file");
        if let Some((_, after)) = text.split_once("lasts until ") {
            let last = settings_of(replaced).layout.valid_until_ms() - 1;
            assert_eq!(after[..10], format_unix_ms(last)[..10], "{}", replaced.file);
            told += 1;
        }
    }
    assert_eq!(told, 8);
}

/// CosId's other widths, with IDs that CosId 2.13.0 issued.
#[test]
fn widths_in_the_text_are_those_of_cosid() {
    let spec = |time_unit, epoch, timestamp_bits, worker_bits| LayoutSpec {
        epoch_ms: ms(epoch),
        timestamp_bits: Some(timestamp_bits),
        worker_bits,
        rollback_bits: 0,
        ..LayoutSpec::for_unit(time_unit)
    };
    let second = spec(TimeUnit::Second, "2019-12-24T16:00:00Z", 31, 10).build().expect("a layout");
    // The seconds of CosId's epoch, taken for milliseconds.
    let safe = spec(TimeUnit::Millisecond, "1970-01-19T06:06:43.2Z", 51, 3).build();
    let safe = safe.expect("a layout");
    for (layout, id, instant, worker) in [
        (&second, 937_330_922_527_653_889, "2026-11-23T14:02:42Z", 9),
        (&safe, 7_347_672_512_535_041, "2026-11-23T14:02:42.705Z", 5),
    ] {
        let parsed = layout.parse(Id::new(id).expect("63 bits"), ms(instant)).expect("it fits");
        assert_eq!(format_unix_ms(parsed.unix_ms), format_unix_ms(ms(instant)));
        assert_eq!(parsed.fields.worker, worker);
    }
    assert!(format_unix_ms(second.valid_until_ms() - 1).starts_with("2088-01-11"));
    let safe_until = safe.bounds(ms("2039-09-25T00:00:00Z"), ms("2039-09-26T00:00:00Z"));
    let safe_until = safe_until.expect("inside the layout");
    assert!(safe_until.from.get() < 1 << 53 && safe_until.until.get() > 1 << 53);
    assert_eq!(safe.widths().sequence, 9);
}

/// A code of the configuration could not be created from the other service's table.
#[test]
fn files_for_imported_numbers_leave_the_codes_to_the_command() {
    for (file, namespace) in IMPORTED {
        let config = load(file);
        let mut segments = config.segments();
        let settings = segments.find(|segments| segments.namespace == namespace);
        assert!(settings.is_some_and(|settings| settings.codes.is_empty()), "{file}");
    }
}
