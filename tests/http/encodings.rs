//! `?encoding=` and `?padded=` on `/id`, `/ids` and `/parse`.

use raindrop::core::{
    encoding::{Encoder, Encoding},
    id::Id,
    preset::Preset,
};
use serde_json::Value;

use crate::support::World;

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
                assert_eq!(encoder.text(id).to_string(), text, "{uri}");
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

#[tokio::test]
async fn a_wrapping_layout_has_no_friendly_ids_and_says_that_its_time_wraps() {
    let world = World::start(&[("layout.preset", "westid-qr")]).await;
    let detail = world.get("/id/a?encoding=friendly").await.problem(400, "invalid_parameter");
    assert!(detail.contains("wraps"), "{detail}");
    let id = world.get("/id/a").await.json()["id"].as_str().expect("a string").to_owned();
    assert_eq!(world.get(&format!("/parse/{id}")).await.json()["wraps"], true);
    world.get("/parse/2147483648").await.problem(422, "not_decodable");
}
