//! Puts any value into any column: the store reads it or names it in an error, and nothing breaks.

use std::{sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*, sample::select, test_runner::RngSeed};
use raindrop::{
    core::{
        clock::SystemClock,
        layout::{Layout, LayoutSpec, TimeUnit},
        lease::Token,
        preset::Preset,
    },
    keeper::{KeeperSettings, Operator, OperatorError},
    store::{CodeState, Reservation, Scope, Store, StoreError, UnreleasedRow, UnusedNumbers},
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};
use tokio::{runtime::Runtime, sync::Mutex};

use crate::backend::{Backend, EPOCH, birth, record, scope, token, with_rows, write};

/// Each table with its columns, and the values in its one row.
const WORKER: (&str, &[(&str, &str)]) = (
    "soc_raindrop_worker",
    &[
        ("namespace", "'default'"),
        ("reserved_key", "'0/0'"),
        ("worker_id", "5"),
        ("holder", "'somebody'"),
        ("token", "'00000000000000000000000000000000'"),
        ("epoch", "'00000000000000000000000000000000'"),
        ("lane", "0"),
        ("marks", "'0,0'"),
        ("heartbeat_at", "0"),
        ("expires_at", "0"),
        ("created_at", "0"),
        ("updated_at", "0"),
    ],
);
const LAYOUT: (&str, &[(&str, &str)]) = (
    "soc_raindrop_worker_layout",
    &[
        ("namespace", "'default'"),
        ("token", "'00000000000000000000000000000000'"),
        ("words", "{words}"),
        ("complete", "'0/0'"),
        ("since_tick", "0"),
        ("first_tick", "0"),
        ("identity", "''"),
        ("epoch", "'000000000000000000000000000000e0'"),
        ("history", "'ordinal=1 since=0 barrier=0 state=set reach=0 renew=0 reached=0 before='"),
        ("created_at", "0"),
    ],
);
const SEGMENT: (&str, &[(&str, &str)]) = (
    "soc_raindrop_segment",
    &[
        ("namespace", "'default'"),
        ("code", "'order'"),
        ("next_number", "1"),
        ("step", "0"),
        ("token", "'00000000000000000000000000000000'"),
        ("epoch", "'00000000000000000000000000000000'"),
        ("created_at", "0"),
        ("updated_at", "0"),
    ],
);
const TABLES: [(&str, &[(&str, &str)]); 3] = [WORKER, LAYOUT, SEGMENT];

/// A table and a column of it, with any value that the column takes, as SQL.
fn corrupt_value() -> impl Strategy<Value = ((&'static str, &'static str), String)> {
    select(&TABLES).prop_flat_map(|(table, columns)| {
        select(columns).prop_flat_map(move |(column, good)| {
            let value =
                if good.parse::<i64>().is_ok() { integer().boxed() } else { text().boxed() };
            (Just((table, column)), value)
        })
    })
}

fn integer() -> impl Strategy<Value = String> {
    let edges = [i64::MIN, i64::MIN + 1, -1, 0, 1, 7, 8, 1 << 53, i64::MAX - 1, i64::MAX];
    prop_oneof![any::<i64>(), select(edges.to_vec())].prop_map(|integer| integer.to_string())
}

fn text() -> impl Strategy<Value = String> {
    let mark = prop_oneof![any::<u64>(), Just(0), Just(i64::MAX as u64), 0_u64..1 << 50];
    let marks = vec(mark, 0..9)
        .prop_map(|marks| marks.iter().map(u64::to_string).collect::<Vec<_>>().join(","));
    let texts = prop_oneof![any::<String>(), "[0-9a-f]{32}", marks, relayout()];
    prop_oneof![
        9 => texts.prop_map(|text| {
            let bytes: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("CAST(x'{bytes}' AS TEXT)")
        }),
        // Not UTF-8.
        1 => Just("CAST(x'41ff42' AS TEXT)".to_owned()),
    ]
}

/// A layout record of a move to another layout, or nearly one.
fn relayout() -> impl Strategy<Value = String> {
    let words = prop_oneof![
        Just(layout().canonical()),
        Just(Preset::JsSafe.layout().canonical()),
        any::<String>(),
    ];
    let stage = prop_oneof![
        Just("fencing".to_owned()),
        any::<u64>().prop_map(|tick| format!("converting tick={tick}")),
        Just(format!("converting tick={}", u64::MAX)),
    ];
    (stage, words.clone(), words).prop_map(|(stage, from, to)| {
        format!("relayout stage={stage} token={} from=[{from}] to=[{to}]", token(7))
    })
}

/// Eight workers, two lanes.
fn layout() -> Layout {
    let spec = LayoutSpec { worker_bits: 3, ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
    spec.build().expect("valid")
}

/// A database, and a person with a SQL console.
struct World {
    runtime: Runtime,
    _site: Backend,
    store: Arc<dyn Store>,
    console: Mutex<SqliteConnection>,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (backend, store, console) = runtime.block_on(async {
            let backend = Backend::sqlite().await;
            let store = backend.store().await;
            store.prepare_segments().await.expect("usable");
            let mut console = SqliteConnection::connect(&backend.url()).await.expect("the file");
            // These tests lose no power.
            console.execute("PRAGMA synchronous = OFF").await.expect("a setting");
            (backend, store, console)
        });
        Self { runtime, _site: backend, store, console: Mutex::new(console) }
    }

    /// Writes one good row into each table, but for this value.
    fn fill(&self, (table, column): (&str, &str), value: &str) {
        let words = format!("'{}'", layout().canonical());
        let mut sql = String::from("BEGIN;");
        for (name, columns) in TABLES {
            let values: Vec<&str> = columns
                .iter()
                .map(|(of, good)| match *good {
                    _ if (name, *of) == (table, column) => value,
                    "{words}" => words.as_str(),
                    good => good,
                })
                .collect();
            sql +=
                &format!("DELETE FROM {name}; INSERT INTO {name} VALUES ({});", values.join(", "));
        }
        sql += "COMMIT;";
        self.runtime.block_on(async {
            let mut console = self.console.lock().await;
            console.execute(AssertSqlSafe(sql.as_str())).await.expect(&sql);
        });
    }
}

/// Reads a code together with another one, whose row must be readable in any case.
async fn read_segment(store: &Arc<dyn Store>) -> Result<CodeState, StoreError> {
    let states = store.read_segments("default", &["missing", "order"], EPOCH).await?;
    let [missing, order] = states.try_into().expect("one state for each code");
    missing.expect("only the row of its code cannot be read");
    order
}

/// Returns whether an error names this place.
fn is_clear(error: &StoreError, place: (&str, &str)) -> bool {
    let StoreError::Corrupt { table, row, column, .. } = error else { return false };
    (table.as_str(), *column) == place && !row.trim().is_empty()
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        // Fixed, so that a run can be repeated; PROPTEST_RNG_SEED sets another.
        rng_seed: RngSeed::Fixed(20_261_122),
        ..ProptestConfig::default()
    }
}

/// A time of a held row that the calendar does not have, and how the row is read with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OddTime {
    pub(crate) column: &'static str,
    pub(crate) value: &'static str,
    pub(crate) reads_ms: i64,
    pub(crate) is_free: bool,
}

/// Sets a time of a held row. The row counts as unreleased, and is written like any other.
pub(crate) async fn rows_with_odd_times_are_used(backend: &Backend, odd: OddTime) {
    let OddTime { column, value, reads_ms, is_free } = odd;
    let scope = scope(4, 5);
    let store = with_rows(backend, &scope).await;
    assert!(store.swap_row(&scope, 5, birth(5), &write(1)).await.expect("an answer"));
    let read = async || store.read_row(&scope, 5).await.expect("readable").expect("the row");
    let before = read().await;
    let set = format!("UPDATE soc_raindrop_worker SET {column} = '{value}' WHERE worker_id = 5");
    backend.run(&set).await;
    let found = read().await;
    let (heartbeat_ms, expires_ms) = match column {
        "heartbeat_at" => (reads_ms, before.expires_ms),
        _ => (before.heartbeat_ms, reads_ms),
    };
    assert_eq!((found.heartbeat_ms, found.expires_ms), (heartbeat_ms, expires_ms), "{odd:?}");
    assert_eq!(found.free, is_free, "{odd:?}");
    assert!(!found.was_never_written());
    let unreleased = store.unreleased_rows("default", 9).await.expect("rows");
    let expected =
        UnreleasedRow { reserved_key: scope.reserved_key.clone(), worker: Ok(5), heartbeat_ms };
    assert_eq!(unreleased, [expected], "{column} {value}");
    let survey = store.survey(&scope).await.expect("a survey");
    assert_eq!((survey.held, survey.free), if found.free { (0, 2) } else { (1, 1) });
    assert_eq!(store.list_rows().await.expect("a list").len(), 2);
    let free = store.free_rows(&scope, None, 9).await.expect("rows");
    assert_eq!(free.iter().any(|row| row.worker == 5), found.free);
    // The next write repairs the row.
    assert!(store.swap_row(&scope, 5, token(1), &write(2)).await.expect("an answer"));
    let repaired = read().await;
    assert!(!repaired.free && (repaired.heartbeat_ms - before.heartbeat_ms).abs() < 3_600_000);
}

#[test]
fn every_value_is_read_or_named_with_its_place() {
    let world = World::new();
    let store = world.store.clone();
    let scope = Scope::new("default", &layout(), 0, 7);
    proptest!(config(500), |((place, value) in corrupt_value(), by in 1..1_u64 << 40)| {
        world.fill(place, &value);
        let errors: Vec<Option<StoreError>> = world.runtime.block_on(async {
            let beginning = |or_begin_at| {
                let (end, token, row_epoch) = (i64::MAX as u64, token(8), Token::UNUSED);
                Reservation { by, step: by, end, token, or_begin_at, epoch: EPOCH, row_epoch }
            };
            let reserved = Token::UNUSED;
            let unused = UnusedNumbers { from: 1, reserved, epoch: EPOCH, token: token(9) };
            vec![
                store.survey(&scope).await.err(),
                store.unreleased_rows("default", 9).await.err(),
                store.free_rows(&scope, None, 9).await.err(),
                store.free_rows(&scope, Some("somebody"), 1).await.err(),
                store.read_row(&scope, 5).await.err(),
                store.list_rows().await.err(),
                store.read_record("default").await.err(),
                store.list_segments().await.err(),
                read_segment(&store).await.err(),
                store.reserve("default", "order", &beginning(None)).await.err(),
                store.reserve("default", "order", &beginning(Some(1))).await.err(),
                store.give_back("default", "order", &unused).await.err(),
                store.create_record("default", &record(1, "words")).await.err(),
                store.swap_record("default", token(2), &record(3, "words")).await.err(),
            ]
        });
        for (asked, error) in errors.iter().enumerate() {
            if let Some(error) = error {
                prop_assert!(is_clear(error, place), "question {}: {}: {:?}", asked, error, error);
            }
        }
    });
}

#[test]
fn operators_do_what_they_do_or_say_why_not() {
    let world = World::new();
    let settings = KeeperSettings::new(layout(), "operator");
    let store = world.store.clone();
    proptest!(config(60), |((place, value) in corrupt_value())| {
        world.fill(place, &value);
        let clock = Arc::new(SystemClock::default());
        let mut operator = Operator::new(settings.clone(), store.clone(), clock);
        let failures: Vec<Option<OperatorError>> = world.runtime.block_on(async {
            vec![
                operator.release(5).await.err(),
                operator.raise(Duration::from_mins(5)).await.err(),
                operator.relayout().await.err(),
            ]
        });
        for error in failures.into_iter().flatten() {
            prop_assert!(!error.to_string().is_empty());
            if let OperatorError::Store(error) = &error {
                prop_assert!(is_clear(error, place), "{}: {:?}", error, error);
            }
        }
    });
}

#[test]
fn a_move_to_a_tick_that_the_layout_does_not_have_is_refused() {
    let world = World::new();
    let (words, tick) = (layout().canonical(), layout().last_tick() + 1);
    let record = format!(
        "relayout stage=converting tick={tick} token={} from=[{words}] to=[{words}]",
        token(7)
    );
    world.fill(("soc_raindrop_worker_layout", "words"), &format!("'{record}'"));
    let settings = KeeperSettings::new(layout(), "operator");
    let clock = Arc::new(SystemClock::default());
    let mut operator = Operator::new(settings, world.store.clone(), clock);
    let error = world.runtime.block_on(operator.relayout()).expect_err("no such tick");
    assert!(matches!(error, OperatorError::UnreadableMove(_)), "{error}");
    let row =
        world.runtime.block_on(world.store.read_row(&Scope::new("default", &layout(), 0, 7), 5));
    assert_eq!(row.expect("an answer").expect("the row").marks.to_string(), "0,0");
}
