//! `?encoding=` and `?padded=` on `/id`, `/ids` and `/parse`.

use std::{collections::HashSet, sync::Arc};

use raindrop::{
    core::{
        clock::SystemClock,
        encoding::{Encoder, Encoding},
        id::Id,
        preset::Preset,
    },
    store::MemoryStore,
};
use serde_json::Value;

use crate::support::{World, config_of};

#[tokio::test]
async fn ids_survive_every_encoding() {
    let world = World::start(&[]).await;
    let layout = Preset::Raindrop.layout();
    for encoding in Encoding::ALL {
        for padded in ["", "&padded=false", "&padded=true"] {
            let is_padded = padded == "&padded=true";
            let Ok(encoder) = Encoder::new(encoding, is_padded, &layout) else { continue };
            let uri = format!("/ids/order?n=3&encoding={encoding}{padded}");
            let json = world.get(&uri).await.json();
            let texts: Vec<&str> =
                json["ids"].as_array().expect("ids").iter().filter_map(Value::as_str).collect();
            assert_eq!(texts.len(), 3, "{uri}");
            for text in texts {
                let parsed = world.get(&format!("/parse/{text}?encoding={encoding}")).await.json();
                let id: Id = parsed["id"].as_str().expect("a string").parse().expect("decimal");
                // A UUID has random bits, which differ each time.
                if !encoding.is_uuid() {
                    assert_eq!(encoder.text(id).to_string(), text, "{uri}");
                }
            }
        }
    }
}

#[tokio::test]
async fn plain_text_is_encoded_too() {
    let world = World::start(&[]).await;
    let text = [("accept", "text/plain")];
    let one = world.call("GET", "/id/order?encoding=hex", &text).await.body;
    assert!(one.len() == 17 && one.ends_with('\n'), "{one:?}");
    let many = world.call("POST", "/ids/order?n=20&encoding=base32&padded=true", &text).await.body;
    let lines: Vec<&str> = many.lines().collect();
    assert!(lines.len() == 20 && lines.is_sorted_by(|a, b| a < b));
    assert!(lines.iter().all(|line| line.len() == 13));
}

#[tokio::test]
async fn published_texts_are_read() {
    let world = World::start(&[]).await;
    for (encoding, text) in [
        ("hex", "7fffffffffffffff"),
        ("base36", "1y2p0ij32e8e7"),
        ("base62", "aZl8N0y58M7"),
        ("base62-sorted", "AzL8n0Y58m7"),
        ("base64url", "f_________8="),
        ("base64url", "f_________8"),
        ("decimal", "9223372036854775807"),
    ] {
        let parsed = world.get(&format!("/parse/{text}?encoding={encoding}")).await.json();
        assert_eq!(parsed["id"], "9223372036854775807", "{encoding}");
    }
}

#[tokio::test]
async fn bad_encodings_are_400_and_claim_nothing() {
    let world = World::start(&[]).await;
    for (uri, said) in [
        ("/id/order?encoding=roman", "decimal, hex, base32"),
        ("/id/order?encoding=", "decimal, hex, base32"),
        ("/id/order?padded=yes", "true or false"),
        ("/id/order?encoding=base62&padded=true", "base62 cannot be padded"),
        ("/id/order?encoding=hex&format=number", "must be string with encoding"),
        ("/ids/order?padded=true&format=range", "must be string with encoding"),
        ("/parse/1?encoding=roman", "decimal, hex, base32"),
        ("/parse/1?padded=true", "unknown parameter"),
    ] {
        let detail = world.get(uri).await.problem(400, "invalid_parameter");
        assert!(detail.contains(said), "{uri}: {detail}");
    }
    assert_eq!(world.ids_issued().await, 0.0);
    assert_eq!(world.get("/id/order?encoding=decimal&format=string").await.status, 200);
}

#[tokio::test]
async fn bad_texts_are_refused_with_the_position() {
    let world = World::start(&[]).await;
    for (uri, said) in [
        ("/parse/12g4?encoding=hex", "position 2"),
        ("/parse/12u4?encoding=base32", "position 2"),
        ("/parse/8000000000000000?encoding=hex", "9223372036854775807"),
        ("/parse/20261120?encoding=friendly", "position 8"),
    ] {
        let detail = world.get(uri).await.problem(400, "invalid_id");
        assert!(detail.contains(said), "{uri}: {detail}");
    }
    let uri = "/parse/20261120T151102.123Z-0-5-0-17-0?encoding=friendly&layout=discord";
    world.get(uri).await.problem(422, "not_decodable");
}

/// A column or a file name that ignores case takes two such texts for one.
#[test]
fn encodings_whose_texts_collide_where_case_is_ignored_are_those_that_documents_and_plan_name() {
    let layout = Preset::Raindrop.layout();
    let collides = |encoding: &Encoding| {
        let encoder = Encoder::new(*encoding, false, &layout).expect("one of every layout");
        let numbers = 1 << 60..(1 << 60) + 5_000;
        let texts =
            numbers.map(|number| encoder.text(Id::new(number).expect("63 bits")).to_string());
        texts.map(|text| text.to_lowercase()).collect::<HashSet<_>>().len() < 5_000
    };
    let colliding: Vec<&str> =
        Encoding::ALL.into_iter().filter(collides).map(Encoding::name).collect();
    for document in [
        include_str!("../../docs/layouts/encodings.md"),
        include_str!("../../docs/http.md"),
        include_str!("../../docs/openapi.json"),
    ] {
        let after_names = document.split("exts in `").filter_map(|rest| {
            let (names, _) = rest.split_once(" differ only in case")?;
            (!names.contains('.')).then_some(names)
        });
        let warnings: Vec<Vec<&str>> = after_names
            .map(|names| names.split('`').filter(|name| name.starts_with("base")).collect())
            .collect();
        assert!(!warnings.is_empty(), "{}", &document[..80]);
        assert!(warnings.iter().all(|named| *named == colliding), "{warnings:?}: {colliding:?}");
    }
    // The plan has no room for the two alphabets of base 62.
    let plan = include_str!("../../src/cli/plan/golden/raindrop.txt");
    let (before, safe) =
        plan.split_once(" collide where case is ignored: use ").expect("a warning");
    let named: Vec<&str> = before.rsplit("  ").next().unwrap_or_default().split(" and ").collect();
    assert_eq!(colliding, [named[0], &format!("{}-sorted", named[0]), named[1]]);
    let safe = safe.lines().next().unwrap_or_default();
    assert!(
        !colliding.contains(&safe) && Encoding::ALL.iter().any(|it| it.name() == safe),
        "{safe}"
    );
}

async fn start_with_file(text: &str) -> World {
    let clock = Arc::new(SystemClock::default());
    let world =
        World::with_config(config_of(text), Arc::new(MemoryStore::new(clock.clone())), clock);
    world.until_issuing().await;
    world
}

#[tokio::test]
async fn uuids_and_typeids_are_read_back_as_their_ids_and_sort_like_them() {
    let file = "[[code]]\nname = 'order'\nprefix = 'ord'\nencoding = 'typeid'\n";
    let world = start_with_file(file).await;
    let texts = async |uri: &str| -> Vec<String> {
        let json = world.get(uri).await.json();
        let texts = json["ids"].as_array().unwrap_or_else(|| panic!("{uri}: {json}"));
        texts.iter().map(|text| text.as_str().expect("a string").to_owned()).collect()
    };
    for (uri, encoding, length) in [
        ("/ids/order?n=500", "typeid", 30),
        ("/ids/order?n=500&encoding=typeid", "typeid", 30),
        ("/ids/other?n=500&encoding=typeid", "typeid", 26),
        ("/ids/order?n=500&encoding=uuid7", "uuid7", 40),
        ("/ids/other?n=500&encoding=uuid7", "uuid7", 36),
    ] {
        let texts = texts(uri).await;
        assert!(texts.is_sorted_by(|a, b| a < b), "{uri}");
        assert!(texts.iter().all(|text| text.len() == length), "{uri}: {}", texts[0]);
        let mut ids: Vec<u64> = Vec::new();
        for text in [&texts[0], &texts[250], &texts[499]] {
            let parsed = world.get(&format!("/parse/{text}?encoding={encoding}")).await.json();
            ids.push(parsed["id"].as_str().expect("a string").parse().expect("a number"));
        }
        assert!(ids.is_sorted_by(|a, b| a < b), "{uri}: {ids:?}");
    }
    // A range is of numbers, whatever the encoding of the code.
    let range = world.get("/ids/order?n=3&format=range").await.json();
    assert_eq!(range["ranges"][0]["count"], 3);
    assert_eq!(range["prefix"], "ord_");
    let id = "ord_01h455vb4pex5vsknk084sn02q";
    for (text, said) in [
        ("ORD_01h455vb4pex5vsknk084sn02q", "position 0"),
        ("ord-01h455vb4pex5vsknk084sn02q", "position 0"),
        ("ord_01H455VB4PEX5VSKNK084SN02Q", "position 2"),
        ("ord_81h455vb4pex5vsknk084sn02q", "0 to 7"),
        ("ord_", "26 digits, not 0"),
    ] {
        let uri = format!("/parse/{text}?encoding=typeid");
        let detail = world.get(&uri).await.problem(400, "invalid_id");
        assert!(detail.contains(said), "{text}: {detail}");
    }
    let parsed = world.get(&format!("/parse/{id}?encoding=typeid&layout=twitter")).await.json();
    assert_eq!(parsed["timestamp"], "2023-06-30T03:34:18.518Z");
}

#[tokio::test]
async fn uuids_of_others_and_bounds_of_uuids_are_answered() {
    let world = World::start(&[]).await;
    let read = async |uri: &str| world.get(uri).await.json();
    let parsed = read("/parse/C232AB00-9414-11EC-B3C8-9F6BDECED846?encoding=uuid7").await;
    assert_eq!(parsed["uuid_version"], 1);
    assert_eq!(parsed["timestamp"], "2022-02-22T19:22:22.000Z");
    assert_eq!(parsed["id"], Value::Null);
    let parsed = read("/parse/919108f7-52d1-4320-9bac-f847db4148a8?encoding=uuid7").await;
    assert_eq!((&parsed["uuid_version"], &parsed["unix_ms"]), (&4.into(), &Value::Null));

    let span = "/bounds?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z";
    let bounds = read(&format!("{span}&encoding=uuid7")).await;
    assert_eq!(bounds["from"], "019b76da-a800-7000-8000-000000000000");
    assert_eq!(bounds["until"], "019b7c01-0400-7000-8000-000000000000");
    let hex = read(&format!("{span}&encoding=hex")).await;
    assert_eq!(hex["from"].as_str().map(str::len), Some(16));
    let detail =
        world.get(&format!("{span}&encoding=base62")).await.problem(400, "invalid_parameter");
    assert!(detail.contains("do not sort as their IDs"), "{detail}");
}

#[tokio::test]
async fn request_for_uuids_of_a_layout_without_them_claims_nothing() {
    let world = World::start(&[("layout.time_unit", "second")]).await;
    for (uri, said) in [
        ("/id/a?encoding=uuid7", "unit is the millisecond; that of this layout is second"),
        ("/id/a?encoding=typeid", "unit is the millisecond; that of this layout is second"),
    ] {
        let detail = world.get(uri).await.problem(422, "not_encodable");
        assert!(detail.contains(said), "{uri}: {detail}");
    }
    world.get("/parse/1?encoding=uuid7").await.problem(422, "not_decodable");
    assert_eq!(world.ids_issued().await, 0.0);
    let world = start_with_file("[[code]]\nname = 'large'\nprefix = 'ORD-'\n").await;
    for (uri, said) in [
        ("/ids/a?encoding=uuid7&format=range", "must be string with encoding"),
        ("/id/a?encoding=typeid&format=number", "must be string with encoding"),
        ("/id/large?encoding=typeid", "code \"large\": \"ORD-\" is not the prefix of a TypeID"),
    ] {
        let detail = world.get(uri).await.problem(422, "not_encodable");
        assert!(detail.contains(said), "{uri}: {detail}");
    }
    assert_eq!(world.ids_issued().await, 0.0);
}

#[tokio::test]
async fn a_wrapping_layout_has_no_friendly_ids_and_says_that_its_time_wraps() {
    let world = World::start(&[("layout.preset", "westid-qr")]).await;
    let detail = world.get("/id/a?encoding=friendly").await.problem(400, "invalid_parameter");
    assert!(detail.contains("wraps"), "{detail}");
    let id = world.get("/id/a").await.json()["id"].as_str().expect("a string").to_owned();
    assert_eq!(world.get(&format!("/parse/{id}")).await.json()["wraps"], true);
    world.get("/parse/2147483648").await.problem(422, "not_decodable");
}
