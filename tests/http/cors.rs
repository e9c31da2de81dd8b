//! Browsers may call `/id`, `/ids`, `/parse`, `/bounds` and `/plan`, and nothing else.

use crate::support::World;

const ORIGIN: (&str, &str) = ("origin", "https://app.example");

#[tokio::test]
async fn preflight_of_every_origin_is_allowed_by_default() {
    let world = World::start(&[]).await;
    for route in [
        "/id/order",
        "/ids/order?n=2",
        "/parse/1",
        "/bounds",
        "/plan",
        "/id/bad%20code",
        "/ids/order?n=0",
    ] {
        let answer = world.call("GET", route, &[ORIGIN]).await;
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{route}");
    }
    for route in ["/health", "/livez", "/readyz", "/metrics", "/version", "/nowhere"] {
        let answer = world.call("GET", route, &[ORIGIN]).await;
        assert_eq!(answer.header("access-control-allow-origin"), None, "{route}");
    }
}

#[tokio::test]
async fn preflight_claims_nothing() {
    let world = World::start(&[]).await;
    let asked = [
        ORIGIN,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type"),
    ];
    let answer = world.call("OPTIONS", "/id/order", &asked).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET,HEAD,POST"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("*,authorization"));
    assert_eq!(world.ids_issued().await, 0.0);
    world.call("OPTIONS", "/health", &asked).await.problem(405, "method_not_allowed");
}

#[tokio::test]
async fn options_without_preflight_headers_is_405() {
    let world = World::start(&[]).await;
    for (route, allowed) in
        [("/id/order", "GET,HEAD,POST"), ("/parse/1", "GET,HEAD"), ("/bounds", "GET,HEAD")]
    {
        let answer = world.call("OPTIONS", route, &[ORIGIN]).await;
        assert_eq!(answer.header("allow"), Some(allowed), "{route}");
        answer.problem(405, "method_not_allowed");
    }
}

const FOREIGN: (&str, &str) = ("origin", "https://other.example");
const CROSS_SITE: (&str, &str) = ("sec-fetch-site", "cross-site");

/// What browsers send for pages of other sites.
const BY_OTHER_SITES: [&[(&str, &str)]; 17] = [
    &[FOREIGN],
    &[FOREIGN, CROSS_SITE],
    &[CROSS_SITE],
    &[("origin", "null"), CROSS_SITE],
    &[("origin", "https://app.example.evil.example")],
    &[FOREIGN, ("sec-fetch-site", "same-site")],
    // The same host by another scheme is another site.
    &[FOREIGN, ("host", "other.example"), CROSS_SITE],
    // Over plain HTTP under a name or a private address there is no Sec-Fetch-Site.
    &[("referer", "http://evil.example/")],
    &[("referer", "http://evil.example:8080/a/page?x=http://ids.example"), HOST],
    &[("referer", "http://ids.example.evil.example/"), HOST],
    &[("referer", "http://ids.example@evil.example/"), HOST],
    &[("referer", "http://ids.example:81/"), HOST],
    &[("referer", "https://ids.example/"), ("host", "ids.example:80")],
    // An image in Chromium, Firefox and Safari, a style sheet, and a sound in Firefox.
    &[("accept", "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8")],
    &[("accept", "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5")],
    &[("accept", "text/css,*/*;q=0.1"), ("referer", "")],
    &[("accept", "audio/webm,audio/ogg,audio/wav,audio/*;q=0.9,*/*;q=0.5")],
];

const HOST: (&str, &str) = ("host", "ids.example");

#[tokio::test]
async fn requests_of_refused_origins_claim_nothing() {
    for (origins, is_listed) in
        [("https://app.example,http://localhost:3000", true), ("none", false), ("", false)]
    {
        let world = World::start(&[("http.cors_origins", origins)]).await;
        for route in ["/id/order", "/ids/order?n=2", "/parse/1", "/bounds"] {
            for headers in BY_OTHER_SITES {
                let answer = world.call("GET", route, headers).await;
                assert_eq!(answer.header("access-control-allow-origin"), None, "{headers:?}");
                let detail = answer.problem(403, "forbidden");
                assert!(detail.contains("http.cors_origins"), "{detail}");
            }
        }
        let simple = [FOREIGN, ("content-type", "text/plain")];
        world.call("POST", "/id/order", &simple).await.problem(403, "forbidden");
        let preflight = [FOREIGN, ("access-control-request-method", "POST")];
        let answer = world.call("OPTIONS", "/id/order", &preflight).await;
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(world.ids_issued().await, 0.0);

        let answer = world.call("GET", "/id/order", &[ORIGIN, CROSS_SITE]).await;
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!(allowed, is_listed.then_some("https://app.example"), "{origins}");
        assert_eq!(answer.status.as_u16(), if is_listed { 200 } else { 403 }, "{origins}");
        let page = [("referer", "https://app.example/orders")];
        let answer = world.call("GET", "/id/order", &page).await;
        assert_eq!(answer.status.as_u16(), if is_listed { 200 } else { 403 }, "{origins}");
        // Pages of this service's own origin, typed addresses and other programs.
        let own: [&[(&str, &str)]; 15] = [
            &[],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "same-origin")],
            &[FOREIGN, ("sec-fetch-site", "same-origin")],
            &[FOREIGN, ("host", "other.example")],
            &[("referer", "http://ids.example/console/x"), HOST],
            &[("referer", "https://IDS.example"), HOST],
            // As behind nginx with `$host:$server_port`.
            &[("referer", "http://ids.example/"), ("host", "ids.example:80")],
            &[("referer", "https://ids.example/"), ("host", "ids.example:443")],
            &[("origin", "http://ids.example"), ("host", "IDS.example:80")],
            &[("referer", "http://ids.example:80/"), HOST],
            &[("referer", "http://evil.example/"), ("sec-fetch-site", "same-origin")],
            &[("accept", "text/html,application/xhtml+xml,image/avif,*/*;q=0.8")],
            &[("accept", "application/json, text/javascript, */*; q=0.01")],
            &[("accept", "*/*")],
        ];
        for headers in own {
            assert_eq!(world.call("POST", "/id/order", headers).await.status, 200, "{headers:?}");
        }
        for route in ["/livez", "/readyz", "/health", "/metrics"] {
            assert_eq!(world.call("GET", route, &[CROSS_SITE]).await.status, 200, "{route}");
        }
        let forbidden = "raindrop_auth_refused_total{reason=\"forbidden\"}";
        assert_eq!(world.metric(forbidden).await, Some(0.0), "no token was refused");
    }
}

#[tokio::test]
async fn requests_of_every_origin_get_ids_by_default() {
    let world = World::start(&[]).await;
    for headers in BY_OTHER_SITES {
        assert_eq!(world.call("POST", "/id/order", headers).await.status, 200, "{headers:?}");
    }
}

#[tokio::test]
async fn responses_forbid_content_sniffing() {
    let world = World::start(&[]).await;
    for (route, is_told) in [
        ("/id/.a", true),
        ("/nowhere", true),
        ("/health", true),
        ("/metrics", true),
        ("/openapi.json", true),
        ("/parse/1", true),
        ("/id/order", false),
    ] {
        let answer = world.get(route).await;
        let nosniff = answer.header("x-content-type-options");
        assert_eq!(nosniff, is_told.then_some("nosniff"), "{route}");
        let referrer = answer.header("referrer-policy");
        assert_eq!(referrer, is_told.then_some("no-referrer"), "{route}");
    }
}
