//! `/bounds`.

use raindrop::core::instant::format_unix_ms;

use crate::support::World;

const DAY: &str = "/bounds?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z";

#[tokio::test]
async fn bounds_enclose_the_ids_of_a_span() {
    let world = World::start(&[]).await;
    let answer = world.get(DAY).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    // A year of milliseconds since 2025, and a day more, above 22 bits.
    let (year, day) = (365_u64 * 86_400_000, 86_400_000_u64);
    let (from, until) = (year << 22, (year + day) << 22);
    assert_eq!(answer.body, format!(r#"{{"from":"{from}","until":"{until}"}}"#));

    let number = |text: &serde_json::Value| {
        text.as_str().expect("a string").parse::<u64>().expect("decimal")
    };
    let id = number(&world.get("/id/order").await.json()["id"]);
    let unix_ms = world.get(&format!("/parse/{id}")).await.json()["unix_ms"].as_i64();
    let unix_ms = unix_ms.expect("a number");
    let (now, next) = (format_unix_ms(unix_ms), format_unix_ms(unix_ms + 1));
    let bounds = world.get(&format!("/bounds?from={now}&to={next}")).await.json();
    let (from, until) = (number(&bounds["from"]), number(&bounds["until"]));
    assert!((from..until).contains(&id), "{bounds} {id}");
}

#[tokio::test]
async fn bad_spans_are_400_or_422() {
    let world = World::start(&[("namespaces.qr.layout.preset", "westid-qr")]).await;
    for (uri, status, code, said) in [
        ("/bounds", 400, "invalid_parameter", "from must be given"),
        ("/bounds?from=2026-01-01T00:00:00Z", 400, "invalid_parameter", "to must be given"),
        ("/bounds?from=today&to=tomorrow", 400, "invalid_parameter", "RFC 3339"),
        (
            "/bounds?from=2026-01-01T00:00:00%2B08:00&to=2026-01-01T00:00:00+08:00",
            400,
            "invalid_parameter",
            "%2B",
        ),
        (
            "/bounds?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
            400,
            "invalid_parameter",
            "after",
        ),
        (
            "/bounds?from=2024-12-31T23:59:59Z&to=2026-01-01T00:00:00Z",
            422,
            "out_of_range",
            "2025-01-01",
        ),
        ("/bounds?from=2026-01-01T00:00:00Z&to=2126-01-01T00:00:00Z", 422, "out_of_range", "2094"),
        ("/bounds?from=2026-01-01T00:00:00Z&to=9999-12-31T23:59:59Z", 422, "out_of_range", "2094"),
        (&format!("{DAY}&layout=twitter"), 400, "invalid_parameter", "unknown parameter"),
        (&format!("{DAY}&namespace=qr"), 422, "out_of_range", "wraps"),
    ] {
        let detail = world.get(uri).await.problem(status, code);
        assert!(detail.contains(said), "{uri}: {detail}");
    }
}
