//! Any request gets a documented response, and a refused one claims nothing.

use std::{collections::BTreeSet, sync::Arc};

use axum::http::Uri;
use proptest::{collection::vec, option, prelude::*, sample::select, test_runner::RngSeed};
use raindrop::{core::clock::SystemClock, store::MemoryStore};

use crate::support::{Answer, World, config_of};

/// Every kind of namespace and code.
const SERVICE: &str = "
    http.max_batch = 300
    codes.max = 1000000
    [layout]
    preset = 'yitter'
    [namespaces.hourly]
    layout.time_unit = 'hour'
    [namespaces.web]
    layout.preset = 'js-safe'
    [namespaces.wrapping]
    layout.preset = 'westid-qr'
    [namespaces.numbers]
    mode = 'segment'
    segment.auto_create = true
    codes.max = 1000000
    [[code]]
    name = 'order'
    prefix = 'ORD-'
    [[code]]
    name = 'invoice'
    namespace = 'numbers'
    prefix = 'INV-'
    [[code]]
    name = 'large'
    namespace = 'numbers'
    start = 9007199254740992
";

const ROUTES: [&str; 8] = ["id", "ids", "parse", "bounds", "health", "livez", "readyz", "metrics"];
const CODES: [&str; 5] = ["order", "invoice", "large", "a", "b"];
const IDS: [&str; 7] = [
    "4096066",
    "ORD-4096066",
    "INV-7",
    "9223372036854775807",
    "20261120T151102.123Z-0-5-0-17-0",
    "019a9f2b-4c8b-7002-8011-c2a91f3be4d7",
    "01h455vb4pex5vsknk084sn02q",
];
const INSTANTS: [&str; 5] = [
    "2020-02-19T18:20:03Z",
    "2024-02-29T12:00:00.123Z",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999Z",
    "-009999-01-02T01:59:59Z",
];
/// Every parameter, with values that it may have.
const PARAMETERS: [(&str, &[&str]); 10] = [
    ("n", &["0", "1", "2", "300", "301", "4294967296"]),
    ("up_to", &["0", "1", "301", "1000000"]),
    ("format", &["string", "number", "range"]),
    (
        "encoding",
        &[
            "decimal",
            "hex",
            "base32",
            "base36",
            "base62",
            "base62-sorted",
            "base64url",
            "friendly",
            "uuid7",
            "typeid",
        ],
    ),
    ("padded", &["true", "false"]),
    ("namespace", &["default", "hourly", "web", "wrapping", "numbers"]),
    ("layout", &["twitter", "westid-qr", "discord", "mastodon", "js-safe"]),
    ("at", &INSTANTS),
    ("from", &INSTANTS),
    ("to", &INSTANTS),
];

/// Text that means nothing, or only by chance.
fn garbage() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9A-Za-z._:-]{0,20}",
        any::<u64>().prop_map(|number| number.to_string()),
        any::<String>(),
        vec(any::<u8>(), 0..40)
            .prop_map(|bytes| bytes.iter().map(|byte| format!("%{byte:02x}")).collect()),
        Just("a".repeat(5_000)),
    ]
}

/// One of these texts, or garbage.
fn text(meant: &'static [&str]) -> impl Strategy<Value = String> {
    prop_oneof![3 => select(meant).prop_map(str::to_owned), 1 => garbage()]
}

fn path() -> impl Strategy<Value = String> {
    let of =
        |route: &'static str, texts| text(texts).prop_map(move |text| format!("/{route}/{text}"));
    let any = vec(text(&ROUTES), 0..4).prop_map(|segments| format!("/{}", segments.join("/")));
    prop_oneof![
        2 => of("id", &CODES),
        3 => of("ids", &CODES),
        2 => of("parse", &IDS),
        1 => select(&["/bounds", "/plan"]).prop_map(str::to_owned),
        1 => any,
    ]
}

fn query() -> impl Strategy<Value = String> {
    let known =
        select(&PARAMETERS).prop_flat_map(|(name, values)| (Just(name.to_owned()), text(values)));
    let pair = prop_oneof![9 => known, 1 => (garbage(), garbage())];
    let pair = pair.prop_map(|(name, value)| format!("{name}={value}"));
    let pairs = vec(pair, 0..4).prop_map(|pairs| pairs.join("&"));
    prop_oneof![9 => pairs, 1 => garbage()]
}

fn method() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just("GET"),
        3 => Just("POST"),
        1 => select(&["HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "raindrop"]),
    ]
}

/// The same address with everything escaped that cannot stand in one.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'!' | b'$'..=b';' | b'=' | b'?'..=b'Z' | b'_' | b'a'..=b'z' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// Status and code of every row of the table in docs/http.md.
fn documented() -> BTreeSet<(u16, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/http.md");
    let text = std::fs::read_to_string(path).expect("docs/http.md");
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let code = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        Some((cells.next()?.parse().ok()?, code.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

/// How many IDs every namespace has given so far.
async fn issued(world: &World) -> f64 {
    let text = world.get("/metrics").await.body;
    let counts = text.lines().filter(|line| line.starts_with("raindrop_ids_issued_total{"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

fn ids_of_range(range: &serde_json::Value) -> u64 {
    range["count"].as_u64().expect("a count") * range["repeat"].as_u64().unwrap_or(1)
}

/// How many IDs an answer of `/id` or `/ids` holds.
fn held(answer: &Answer) -> f64 {
    if answer.header("content-type") == Some("text/plain; charset=utf-8") {
        return answer.body.lines().count() as f64;
    }
    let json = answer.json();
    let ranges = json["ranges"].as_array().into_iter().flatten();
    let ranged: u64 = ranges.map(ids_of_range).sum();
    let listed = json["ids"].as_array().map_or(0, Vec::len);
    ranged as f64 + listed as f64 + if json["id"].is_null() { 0.0 } else { 1.0 }
}

#[test]
fn every_answer_is_documented_and_a_refusal_claims_nothing() {
    // The keepers renew leases on another thread, also between requests.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let world = runtime.block_on(async {
        let clock = Arc::new(SystemClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let world = World::with_config(config_of(SERVICE), store, clock);
        world.until_issuing().await;
        world
    });
    let documented = documented();
    assert!(documented.len() > 20, "{documented:?}");
    // Nothing here is slow, overloaded, without a store or a defect.
    let expected = |status: u16| [200, 400, 404, 405, 414, 422].contains(&status);
    let config = ProptestConfig {
        cases: 2_000,
        // Fixed, so that a run can be repeated; PROPTEST_RNG_SEED sets another.
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    };
    proptest!(config, |(
        method in method(),
        path in path(),
        query in option::of(query()),
        accepts_text in any::<bool>(),
    )| {
        let uri = query.map_or(path.clone(), |query| format!("{path}?{query}"));
        let uri = escaped(&uri);
        prop_assume!(uri.parse::<Uri>().is_ok());
        let headers: &[_] = if accepts_text { &[("accept", "text/plain")] } else { &[] };
        let (answer, claimed) = runtime.block_on(async {
            let before = issued(&world).await;
            let answer = world.call(method, &uri, headers).await;
            (answer, issued(&world).await - before)
        });
        let status = answer.status.as_u16();
        let about = format!("{method} {uri}: {answer:?}");
        prop_assert!(expected(status), "{}", about);
        if status != 200 {
            prop_assert!(claimed == 0.0, "{} claimed {}", about, claimed);
            if method == "HEAD" {
                prop_assert_eq!(&answer.body, "");
            } else {
                let code = answer.json()["code"].as_str().unwrap_or_default().to_owned();
                prop_assert!(documented.contains(&(status, code.clone())), "{}", about);
                prop_assert!(!answer.problem(status, &code).is_empty(), "{}", about);
            }
        } else if method != "HEAD" && (path.starts_with("/id/") || path.starts_with("/ids/")) {
            prop_assert!(claimed >= 1.0 && claimed == held(&answer), "{} claimed {}", about, claimed);
        } else {
            prop_assert_eq!(claimed, 0.0, "{}", about);
        }
    });
}
