use std::fs;

use super::*;
use crate::store::StoreUrl;

/// 2026-11-20.
const NOW_MS: i64 = 1_795_132_800_000;

/// As raindrop-Go logs it when it starts.
const LOGGED: &str = r#"{
    "idMode": "Snowflake",
    "dbConfig": {
        "dbType": "mysql",
        "dbUrl": "root:p@ss@(db:3306)/ids?charset=utf8mb4&parseTime=True&loc=Asia%2FShanghai",
        "tableName": "soc_raindrop_worker"
    },
    "logger": {},
    "servicePort": 8081,
    "timeUnit": 2,
    "startTimeStamp": "2023-03-01T00:00:00+08:00",
    "timeStampLength": 31,
    "priorityEqualCodeWorkId": true,
    "workIdLength": 4,
    "serviceMinWorkId": 10,
    "serviceMaxWorkId": 15,
    "timeBackBitValue": 1,
    "endBitsLength": 1,
    "endBitValue": 1
}"#;

/// The smallest one, in TOML.
const SMALLEST: &str = r#"
    IdMode = "Snowflake"
    TimeUnit = 1
    StartTimeStamp = 2023-01-01T00:00:00+08:00
    TimeStampLength = 41
    WorkIdLength = 9
    [DbConfig]
    DbType = "postgresql"
    DbUrl = "app@db/ids"
"#;

fn converted(text: &str) -> Converted {
    convert(text, NOW_MS).expect("it can be converted")
}

/// Loads the converted file as the service does.
fn loaded(converted: &Converted) -> Config {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raindrop.toml");
    fs::write(&path, &converted.toml).expect("written");
    Config::load(&Inputs { file: Some(path), ..Inputs::default() }).expect("it loads")
}

fn problems(text: &str) -> Vec<String> {
    convert(text, NOW_MS).expect_err("it cannot be converted")
}

fn warned(converted: &Converted, said: &str) -> bool {
    converted.warnings.iter().any(|warning| warning.contains(said))
}

#[test]
fn a_whole_configuration_is_converted() {
    let converted = converted(LOGGED);
    assert_eq!(
        converted.toml,
        r#"# From a configuration of raindrop-Go; docs/migrating.md.

[layout]
time_unit = "second"
timestamp_bits = 31
epoch = "2023-02-28T16:00:00Z"
worker_bits = 4
rollback_bits = 1
rollback_initial = 1
reserved_bits = 1
reserved_value = 1

[worker]
min_id = 10
max_id = 15
prefer_previous = true

[codes]
# As in raindrop-Go, each code has a sequence of its own, and IDs of two codes may be equal.
# With true, IDs are unique in the namespace.
shared = false

[store]
url = "mysql://root:p%40ss@db:3306/ids"
worker_table = "raindrop_worker"

[http]
listen = "127.0.0.1:8081"
"#
    );
    let config = loaded(&converted);
    let keeper = config.keepers().next().expect("it always exists");
    assert_eq!(
        keeper.layout.canonical(),
        "unit=second epoch=2023-02-28T16:00:00Z timestamp=31 data_center=0 worker=4 rollback=1 \
         sequence=26 reserved=1 min_sequence=0 max_sequence=67108863"
    );
    assert_eq!((keeper.layout.rollback_initial(), keeper.layout.reserved()), (1, 1));
    assert_eq!((keeper.min_worker, keeper.max_worker, keeper.prefer_previous), (10, 15, true));
    assert_eq!(config.store.url, StoreUrl::new("mysql://root:p%40ss@db:3306/ids"));
    assert_eq!(config.store.worker_table, "raindrop_worker");
    for said in ["store.password_file", "soc_raindrop_worker has other columns", "http.listen"] {
        assert!(warned(&converted, said), "{said}: {:?}", converted.warnings);
    }
    assert_eq!(converted.warnings.len(), 3);
}

/// raindrop-Go subtracts `UnixMilli() / unit` of the start, in whole numbers of Go.
#[test]
fn epoch_is_the_tick_that_go_subtracts() {
    let epoch_ms = |unit: u8, timestamp_bits: u8, start: &str| {
        let text = SMALLEST
            .replace("TimeUnit = 1", &format!("TimeUnit = {unit}"))
            .replace("= 41", &format!("= {timestamp_bits}"))
            .replace("2023-01-01T00:00:00+08:00", start);
        let config = loaded(&converted(&text));
        config.keepers().next().expect("it always exists").layout.epoch_ms()
    };
    assert_eq!(epoch_ms(1, 44, "1969-12-31T23:59:58.500Z"), -1_500);
    assert_eq!(epoch_ms(2, 40, "1969-12-31T23:59:58.500Z"), -1_000);
    assert_eq!(epoch_ms(5, 16, "1969-12-30T00:00:00Z"), -2 * 86_400_000);
    assert_eq!(epoch_ms(5, 16, "1969-12-29T16:00:00Z"), -2 * 86_400_000);
    assert_eq!(epoch_ms(5, 16, "1969-12-31T16:00:00Z"), 0);
    assert_eq!(epoch_ms(5, 16, "1970-01-02T16:00:00Z"), 86_400_000);
}

#[test]
fn names_toml_and_missing_fields_are_read_as_in_go() {
    let converted = converted(SMALLEST);
    let config = loaded(&converted);
    let keeper = config.keepers().next().expect("it always exists");
    assert_eq!(
        keeper.layout.canonical(),
        "unit=millisecond epoch=2022-12-31T16:00:00Z timestamp=41 data_center=0 worker=9 \
         rollback=1 sequence=12 reserved=0 min_sequence=0 max_sequence=4095"
    );
    assert_eq!((keeper.min_worker, keeper.max_worker), (1, 511));
    assert_eq!(config.store.url, StoreUrl::new("postgres://app@db/ids"));
    assert!(warned(&converted, "ServiceMinWorkId and ServiceMaxWorkId are 0"));
    assert!(!warned(&converted, "password"));
}

#[test]
fn every_unit_and_width_can_be_converted() {
    for (unit, widths) in [(1, 41..=55), (2, 31..=55), (3, 25..=50), (4, 19..=45), (5, 15..=40)] {
        for (timestamp, worker, end) in widths
            .flat_map(|timestamp| [(3, 0), (10, 5)].map(|(worker, end)| (timestamp, worker, end)))
        {
            let text = SMALLEST
                .replace("TimeUnit = 1", &format!("TimeUnit = {unit}\nEndBitsLength = {end}"))
                .replace("Length = 41", &format!("Length = {timestamp}"))
                .replace("WorkIdLength = 9", &format!("WorkIdLength = {worker}"));
            // The original, too, wants one bit for the sequence.
            if timestamp + worker + 1 + end <= 62 {
                let config = loaded(&converted(&text));
                let widths = config.keepers().next().expect("it always exists").layout.widths();
                assert_eq!(
                    (widths.timestamp, widths.worker, widths.rollback, widths.reserved),
                    (timestamp, worker, 1, end)
                );
            } else {
                let problems = problems(&text);
                let said = "TimeStampLength + WorkIdLength + EndBitsLength = ";
                assert!(problems.len() == 1 && problems[0].starts_with(said), "{problems:?}");
            }
        }
    }
}

#[test]
fn differences_are_warned_about() {
    for (from, to, said) in [
        ("\"Snowflake\"", "\"NumberSection\"", "never implemented NumberSection"),
        ("\"Snowflake\"", "\"snowfake\"", "in every mode"),
        ("\"postgresql\"", "\"postgres\"", "everything but mysql"),
        ("TimeUnit = 1", "TimeUnit = 1\nEndBitsValue = 3", "since EndBitsLength is 0"),
        ("app@db/ids", "app@db/ids?TimeZone=UTC", "DbConfig.DbUrl: the parameter TimeZone"),
        ("app@db/ids", "app:pw@db/ids", "store.password_file"),
        ("TimeUnit = 1", "TimeUnit = 1\nLogger = \"x\"", "see log.level"),
    ] {
        let converted = converted(&SMALLEST.replace(from, to));
        assert!(warned(&converted, said), "{said}: {:?}", converted.warnings);
        loaded(&converted);
    }
    let minutes = SMALLEST
        .replace("TimeUnit = 1", "TimeUnit = 3\nPriorityEqualCodeWorkId = true")
        .replace("IdMode", "TimeBackBitValue = 0\nIdMode");
    assert!(warned(&converted(&minutes), "applies with every unit"));
    let ours = SMALLEST.replace("DbType", "TableName = \"raindrop_worker\"\n    DbType");
    let converted = converted(&ours);
    assert_eq!(loaded(&converted).store.worker_table, "raindrop_lease");
}

#[test]
fn an_unreadable_value_is_reported_once() {
    for field in ["WorkIdLength = 9", "Length = 41"] {
        let (name, _) = field.split_once(" = ").expect("a value");
        let found = problems(&SMALLEST.replace(field, &format!("{name} = \"x\"")));
        assert!(found.len() == 1 && found[0].contains("must be a whole number"), "{found:?}");
    }
}

#[test]
fn every_problem_has_the_originals_name() {
    let text = LOGGED
        .replace("\"timeUnit\": 2", "\"timeUnit\": 6")
        .replace("2023-03-01T00:00:00+08:00", "2023-03-01")
        .replace("\"workIdLength\": 4", "\"workIdLength\": 17")
        .replace("\"timeBackBitValue\": 1", "\"timeBackBitValue\": 2")
        .replace("\"endBitsLength\": 1", "\"endBitsLength\": 6")
        .replace("\"priorityEqualCodeWorkId\": true", "\"priorityEqualCodeWorkId\": 1")
        .replace("root:p@ss@(db:3306)/ids", "root:p@ss@db")
        .replace("\"servicePort\": 8081", "\"servicePort\": 65536, \"prot\": 1");
    let found = problems(&text).join("\n");
    for said in [
        "prot: unknown; raindrop-Go's names are IdMode, ",
        "TimeUnit = 6: must be 1 (millisecond)",
        "StartTimeStamp = \"2023-03-01\": must be an RFC 3339 instant",
        "WorkIdLength = 17: must be 3 to 16",
        "EndBitsLength = 6: must be 0 to 5",
        "PriorityEqualCodeWorkId = 1: must be true or false",
        "DbConfig.DbUrl = …: must be user:password@tcp(host:port)/database",
        "ServicePort = 65536: must be 0 to 65535",
    ] {
        assert!(found.contains(said), "{said} is missing in\n{found}");
    }
    assert!(!found.contains("p@ss"), "{found}");
}

#[test]
fn values_inside_fields_have_the_ranges_of_their_widths() {
    for (from, to, said) in [
        (
            "\"timeBackBitValue\": 1",
            "\"timeBackBitValue\": 2",
            "TimeBackBitValue = 2: must be 0 to 1",
        ),
        ("\"endBitValue\": 1", "\"endBitValue\": 2", "EndBitsValue = 2: must be 0 to 1"),
        ("\"endBitValue\": 1", "\"endBitValue\": -1", "raindrop-Go makes negative IDs"),
        ("\"serviceMaxWorkId\": 15", "\"serviceMaxWorkId\": 16", "ServiceMaxWorkId = 16: must be "),
        ("\"serviceMinWorkId\": 10", "\"serviceMinWorkId\": -1", "ServiceMinWorkId = -1: must be "),
        (
            "\"timeStampLength\": 31",
            "\"timeStampLength\": 30",
            "TimeStampLength = 30: must be 31 to 55",
        ),
        ("2023-03-01T", "2027-03-01T", "must not be in the future"),
        ("\"mysql\"", "\"MySQL\"", "DbConfig.DbType = \"MySQL\": must be \"mysql\""),
        (
            "\"endBitValue\": 1",
            "\"endBitValue\": 1, \"EndBitsValue\": 1",
            "EndBitsValue is given twice",
        ),
    ] {
        let problems = problems(&LOGGED.replace(from, to));
        assert!(problems.iter().any(|problem| problem.contains(said)), "{said}: {problems:?}");
    }
}

#[test]
fn other_texts_are_refused() {
    for (text, said) in [
        ("{\"dbUrl\": \"secret\"", "not JSON: EOF"),
        ("password = secret", "neither JSON"),
        ("idMode: Snowflake", "neither JSON"),
    ] {
        let problems = problems(text);
        assert!(problems.len() == 1 && problems[0].contains(said), "{problems:?}");
        assert!(!problems[0].contains("secret"), "{problems:?}");
    }
    assert!(problems("").len() > 1, "everything that is required is missing");
}
