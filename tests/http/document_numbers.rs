//! Codes whose numbers are written in a form.

use std::sync::Arc;

use raindrop::{core::clock::SystemClock, store::MemoryStore};
use serde_json::json;

use crate::support::{World, config_of};

const NUMBERS: &str = "
    [issue]
    max_wait = '200ms'
    [namespaces.numbers]
    mode = 'segment'
    [[code]]
    name = 'invoice'
    namespace = 'numbers'
    text = 'INV/{n:03}'
    max_step = 100_000
    [[code]]
    name = 'ticket'
    namespace = 'numbers'
    start = 98
    increment = 2
    text = 'T{n:02}-A'
    [[code]]
    name = 'tens'
    namespace = 'numbers'
    increment = 10
    remainder = 3
    js_safe = true
    text = 'N{n:03}'
    [[code]]
    name = 'plain'
    namespace = 'numbers'
";

async fn world() -> World {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::default())));
    let world = World::with_config(config_of(NUMBERS), store, Arc::new(SystemClock::default()));
    world.until_issuing().await;
    world
}

#[tokio::test]
async fn numbers_are_issued_as_texts() {
    let world = world().await;
    for (uri, body) in [
        ("/id/invoice", r#"{"id":"INV/001"}"#),
        ("/id/invoice?format=string&namespace=numbers", r#"{"id":"INV/002"}"#),
        ("/ids/invoice?n=2", r#"{"ids":["INV/003","INV/004"]}"#),
        ("/ids/ticket?n=3", r#"{"ids":["T98-A","T100-A","T102-A"]}"#),
        ("/id/plain", r#"{"id":"1"}"#),
    ] {
        let answer = world.get(uri).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, body), "{uri}");
    }
    assert_eq!(world.call("POST", "/id/invoice", &[]).await.body, r#"{"id":"INV/005"}"#);
    let plain = world.call("GET", "/ids/invoice?n=2", &[("accept", "text/plain")]).await;
    assert_eq!(plain.body, "INV/006\nINV/007\n");
    // Also in a response that is written in pieces.
    let many = world.get("/ids/invoice?n=10000").await.json();
    let expected: Vec<String> = (8..10_008).map(|number| format!("INV/{number:03}")).collect();
    assert_eq!(many["ids"], json!(expected));
}

/// A client that leases ranges must not issue numbers without their form.
#[tokio::test]
async fn requests_for_other_texts_and_ranges_are_refused() {
    let world = world().await;
    for (method, uri, said) in [
        ("POST", "/ids/invoice?format=range&up_to=1000", "format = \"range\""),
        ("GET", "/ids/invoice?format=range&n=5", "format = \"range\""),
        ("GET", "/id/invoice?format=number", "format = \"number\""),
        ("GET", "/ids/invoice?format=number&n=2", "format = \"number\""),
        ("GET", "/id/invoice?encoding=decimal", "encoding = \"decimal\""),
        ("GET", "/id/invoice?encoding=hex", "encoding = \"hex\""),
        ("GET", "/id/invoice?padded=true", "padded = \"true\""),
        ("HEAD", "/id/invoice?padded=true", ""),
    ] {
        let answer = world.call(method, uri, &[]).await;
        if method == "HEAD" {
            assert_eq!(answer.status, 400, "{uri}");
            continue;
        }
        let detail = answer.problem(400, "invalid_parameter");
        let way_out = "whose numbers are written as INV/{n:03}: ask for one ID, or for n of them";
        assert!(detail.contains(said) && detail.ends_with(way_out), "{uri}: {detail}");
    }
    assert_eq!(world.get("/id/invoice").await.body, r#"{"id":"INV/001"}"#, "nothing was claimed");
}

#[tokio::test]
async fn texts_are_read_back() {
    let world = world().await;
    for (uri, number) in [
        ("/parse/INV%2F017?code=invoice", "17"),
        ("/parse/INV%2F17?code=invoice&namespace=numbers", "17"),
        ("/parse/T100-A?code=ticket", "100"),
        // The start and the padding may have been smaller.
        ("/parse/INV%2F000?code=invoice", "0"),
        ("/parse/T2-A?code=ticket", "2"),
        ("/parse/INV%2F9223372036854775806?code=invoice", "9223372036854775806"),
        ("/parse/N9007199254740983?code=tens", "9007199254740983"),
    ] {
        let parsed = world.get(uri).await.json();
        assert_eq!((&parsed["number"], &parsed["namespace"]), (&json!(number), &json!("numbers")));
    }
    for (uri, status, code, said) in [
        ("/parse/INV-017?code=invoice", 400, "invalid_id", "not of the form INV/{n:03}"),
        ("/parse/INV%2F0017?code=invoice", 400, "invalid_id", "written 0017"),
        ("/parse/INV%2F9223372036854775807?code=invoice", 400, "invalid_id", "is written 9223"),
        ("/parse/INV%2F18446744073709551615?code=invoice", 400, "invalid_id", "is written 1844"),
        ("/parse/T99-A?code=ticket", 400, "invalid_id", "99 is no number of code \"ticket\""),
        ("/parse/N004?code=tens", 400, "invalid_id", "leave 3 (remainder) when they are divided"),
        ("/parse/N9007199254740993?code=tens", 400, "invalid_id", "at most 9007199254740991 (max)"),
        (
            "/parse/INV%2F017",
            400,
            "invalid_id",
            "; a text of a segment code needs the parameter code",
        ),
        ("/parse/%FF?code=invoice", 400, "invalid_id", "UTF-8"),
        ("/parse/1?code=a%20b", 400, "invalid_code", "a b"),
        ("/parse/1?code=invoice&encoding=hex", 400, "invalid_parameter", "excludes encoding"),
        ("/parse/1?code=invoice&namespace=default", 400, "invalid_parameter", "belongs to"),
        ("/parse/1?code=plain", 422, "not_decodable", "no setting text"),
        ("/parse/1?code=time", 422, "not_decodable", "namespace needs the parameter namespace"),
        ("/parse/1?code=other&namespace=numbers", 422, "not_decodable", "no setting text"),
    ] {
        let detail = world.get(uri).await.problem(status, code);
        assert!(detail.contains(said), "{uri}: {detail}");
    }
}
