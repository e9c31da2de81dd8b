//! Bearer tokens: which client may use which route, by the router and by real connections.

use std::{fmt::Write, sync::Arc};

use raindrop::{core::clock::SystemClock, store::MemoryStore};

use crate::{
    connections::Reached,
    support::{Answer, World, config_of, token_entry},
};

type Headers<'a> = &'a [(&'a str, &'a str)];

const ALL: (&str, &str) = ("authorization", "Bearer for-everything");
const SHOP: (&str, &str) = ("authorization", "Bearer for-the-shop");
const WEB: (&str, &str) = ("authorization", "Bearer for-the-web");
const PLAIN: (&str, &str) = ("authorization", "Bearer for-the-plain");
const SCRAPER: (&str, &str) = ("authorization", "Bearer for-the-scraper");
const ORIGIN: (&str, &str) = ("origin", "https://app.example");

const MISSING: &str = r#"Bearer realm="raindrop""#;
const INVALID: &str = r#"Bearer realm="raindrop", error="invalid_token""#;
const FORBIDDEN: &str = r#"Bearer realm="raindrop", error="insufficient_scope""#;

const BOUNDS: &str = "/bounds?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z";

/// Every route that needs a token, and what its bearer is answered.
const PROTECTED: [(&str, &str, u16); 21] = [
    ("GET", "/id/order", 200),
    ("POST", "/id/order", 200),
    ("HEAD", "/id/order", 200),
    ("GET", "/id/%6Frder", 200),
    ("GET", "/id/.a", 400),
    ("PUT", "/id/order", 405),
    ("GET", "/ids/order?n=3", 200),
    ("HEAD", "/ids/order?n=3", 200),
    ("POST", "/id/order?at=2026-01-01T00:00:00Z", 422),
    ("GET", "/id/order?namespace=missing", 404),
    ("GET", "/parse/1", 200),
    ("GET", BOUNDS, 200),
    ("POST", "/bounds", 405),
    ("GET", "/plan", 200),
    ("GET", "/health", 200),
    ("GET", "/version", 200),
    ("GET", "/metrics", 200),
    ("POST", "/metrics", 405),
    ("GET", "/openapi.json", 200),
    ("GET", "/nowhere", 404),
    ("GET", "/console", 404),
];

/// The part of a refusal in place of a namespace that the request does not name.
const UNTOLD: &str = "may not use what is requested";

struct Guarded {
    reached: Reached,
    folder: tempfile::TempDir,
}

impl Guarded {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tokens.toml");
        let mut tokens = String::new();
        for (name, (_, value), rights) in [
            ("all", ALL, ""),
            ("shop", SHOP, "namespaces = ['default']\ncodes = ['order', 'invoice:*']"),
            ("web", WEB, "namespaces = ['web']"),
            ("plain", PLAIN, "namespaces = ['default']"),
            ("scraper", SCRAPER, "namespaces = []\ncodes = []"),
        ] {
            let entry = token_entry(name, &value["Bearer ".len()..]);
            writeln!(tokens, "{entry}{rights}").expect("a string takes any text");
        }
        std::fs::write(&path, tokens).expect("written");
        let config = config_of(&format!(
            "auth.tokens_file = '{}'\n[namespaces.web]\n[[code]]\nname = 'page'\nnamespace = 'web'\n\
             [[code]]\nname = 'secret'\nnamespace = 'web'\nprefix = 'SEC-'\n\
             [namespaces.hidden]\n[[code]]\nname = 'third'\nnamespace = 'hidden'\nprefix = 'THI-'\n",
            path.display()
        ));
        let clock = Arc::new(SystemClock::default());
        let world = World::with_config(config, Arc::new(MemoryStore::new(clock.clone())), clock);
        world.until_issuing().await;
        Self { reached: Reached::start(world).await, folder }
    }

    /// Calls through the router and over a connection, which must answer the same.
    async fn call(&self, method: &str, uri: &str, headers: Headers<'_>) -> Answer {
        let routed = self.reached.world.call(method, uri, headers).await;
        let connected = self.reached.call(method, uri, headers).await;
        let told = format!("{method} {uri} {headers:?}");
        assert_eq!(connected.status, routed.status, "{told}");
        let challenge = "www-authenticate";
        assert_eq!(connected.header(challenge), routed.header(challenge), "{told}");
        if method != "HEAD" && routed.status.as_u16() >= 400 {
            assert_eq!(connected.body, routed.body, "{told}");
        }
        connected
    }

    /// The value of the metric with exactly these labels.
    async fn metric(&self, name_and_labels: &str) -> f64 {
        let text = self.reached.world.call("GET", "/metrics", &[SCRAPER]).await.body;
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name_and_labels)?.strip_prefix(' '));
        value.expect("exported").parse().expect("a number")
    }

    async fn refused(&self, reason: &str) -> f64 {
        self.metric(&format!("raindrop_auth_refused_total{{reason=\"{reason}\"}}")).await
    }

    async fn ids_issued(&self) -> f64 {
        self.metric(r#"raindrop_ids_issued_total{id_namespace="default"}"#).await
    }

    async fn stop(self) {
        self.reached.stop().await;
        self.folder.close().expect("removed");
    }
}

/// Asserts a 401 with this challenge; HEAD has no document.
fn unauthorized(answer: &Answer, method: &str, challenge: &str) {
    assert_eq!(answer.header("www-authenticate"), Some(challenge), "{answer:?}");
    assert_eq!(answer.status, 401);
    if method != "HEAD" {
        let detail = answer.problem(401, "unauthorized");
        assert!(detail.contains("token") && !detail.contains("for-"), "{detail}");
    }
}

#[tokio::test]
async fn requests_without_a_known_token_are_401_and_claim_nothing() {
    let guarded = Guarded::start().await;
    let longest = format!("Bearer {}", "x".repeat(513));
    let cases: [(Headers<'_>, &str); 12] = [
        (&[], MISSING),
        (&[("authorization", "")], MISSING),
        (&[("authorization", "Basic Zm9yLWV2ZXJ5dGhpbmc6")], MISSING),
        (&[("authorization", "for-everything")], MISSING),
        (&[("authorization", "Bearer")], INVALID),
        (&[("authorization", "Bearer wrong")], INVALID),
        (&[("authorization", "Bearer FOR-EVERYTHING")], INVALID),
        (&[("authorization", "Bearer for-everything,")], INVALID),
        (&[("authorization", "Bearer for-everything for-everything")], INVALID),
        (&[("authorization", &longest)], INVALID),
        (&[ALL, ALL], INVALID),
        (&[("authorization", "Basic Zm9yOg=="), ALL], INVALID),
    ];
    let (mut missing, mut invalid) = (0.0, 0.0);
    for (headers, challenge) in cases {
        for (method, uri, _) in PROTECTED {
            unauthorized(&guarded.call(method, uri, headers).await, method, challenge);
            let count = if challenge == MISSING { &mut missing } else { &mut invalid };
            *count += 2.0;
        }
    }
    assert_eq!(guarded.refused("missing").await, missing);
    assert_eq!(guarded.refused("invalid").await, invalid);
    assert_eq!(guarded.refused("forbidden").await, 0.0);
    assert_eq!(guarded.ids_issued().await, 0.0);
    let counted = r#"raindrop_http_requests_total{method="GET",route="/id/{code}",status="401"}"#;
    assert!(guarded.metric(counted).await > 0.0);
    guarded.stop().await;
}

#[tokio::test]
async fn non_text_bytes_in_a_token_are_401() {
    let guarded = Guarded::start().await;
    for uri in ["/id/order", "/id/%6Frder", "/metrics"] {
        let answer = guarded
            .reached
            .exchange(&format!(
                "GET {uri} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \u{ff}\u{fe}\r\n\
                 connection: close\r\n\r\n"
            ))
            .await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains(INVALID), "{answer}");
    }
    guarded.stop().await;
}

#[tokio::test]
async fn known_token_opens_every_route_in_any_case_of_the_scheme() {
    let guarded = Guarded::start().await;
    for scheme in ["Bearer", "bearer", "BEARER ", "bEaReR"] {
        let value = format!("{scheme} for-everything");
        for (method, uri, status) in PROTECTED {
            let answer = guarded.call(method, uri, &[("authorization", &value)]).await;
            assert_eq!(answer.status, status, "{method} {uri} {value}");
            assert_eq!(answer.header("www-authenticate"), None);
        }
    }
    for reason in ["missing", "invalid", "forbidden"] {
        assert_eq!(guarded.refused(reason).await, 0.0, "{reason}");
    }
    guarded.stop().await;
}

#[tokio::test]
async fn probes_ignore_tokens() {
    let guarded = Guarded::start().await;
    for headers in [&[][..], &[("authorization", "Bearer wrong")], &[ALL, ALL]] {
        for uri in ["/livez", "/readyz"] {
            for (method, status) in [("GET", 200), ("HEAD", 200), ("PUT", 405)] {
                assert_eq!(guarded.call(method, uri, headers).await.status, status);
            }
        }
    }
    guarded.stop().await;
}

#[tokio::test]
async fn requests_without_a_token_cannot_probe_for_namespaces() {
    let guarded = Guarded::start().await;
    for uri in [
        "/readyz?namespace=web",
        "/readyz?namespace=absent",
        "/readyz?n%61mespace=web",
        "/readyz?x=1&namespace=web",
    ] {
        for method in ["GET", "HEAD"] {
            unauthorized(&guarded.call(method, uri, &[]).await, method, MISSING);
        }
    }
    for (token, uri, status) in [
        (ALL, "/readyz?namespace=web", 200),
        (ALL, "/readyz?namespace=absent", 404),
        (WEB, "/readyz?namespace=web", 200),
        (WEB, "/readyz?namespace=default", 403),
        (WEB, "/readyz?namespace=absent", 403),
        (WEB, "/health?namespace=web", 200),
        (WEB, "/health?namespace=default", 403),
        (WEB, "/health?namespace=absent", 403),
    ] {
        assert_eq!(guarded.call("GET", uri, &[token]).await.status, status, "{uri}");
    }
    guarded.stop().await;
}

#[tokio::test]
async fn limited_token_is_403_outside_its_limits_with_the_reason() {
    let guarded = Guarded::start().await;
    let issued = guarded.ids_issued().await;
    let mut forbidden = 0.0;
    for (token, method, uri, said) in [
        (
            SHOP,
            "GET",
            "/id/user",
            r#"the token "shop" may not use code "user"; allowed: order, invoice:*"#,
        ),
        (SHOP, "POST", "/id/user", "\"user\""),
        (SHOP, "HEAD", "/id/user", ""),
        (SHOP, "GET", "/id/%75ser", "\"user\""),
        (SHOP, "GET", "/id/orders", "\"orders\""),
        (SHOP, "GET", "/id/invoice", "\"invoice\""),
        (SHOP, "GET", "/ids/user?n=5", "\"user\""),
        (SHOP, "HEAD", "/ids/user?n=5", ""),
        (SHOP, "POST", "/id/user?at=2026-01-01T00:00:00Z", "\"user\""),
        (SHOP, "GET", "/id/page", "\"page\""),
        (SHOP, "GET", "/id/order?namespace=web", r#"namespace "web"; allowed: default"#),
        (SHOP, "POST", "/id/order?namespace=web&at=2026-01-01T00:00:00Z", "\"web\""),
        (SHOP, "GET", "/id/order?namespace=missing", r#"namespace "missing"; allowed: default"#),
        (SHOP, "GET", "/parse/1?namespace=web", "\"web\""),
        (WEB, "GET", "/id/order", "requested without ?namespace=; allowed: web"),
        (WEB, "GET", "/parse/1", "requested without ?namespace=; allowed: web"),
        (WEB, "GET", BOUNDS, "\"default\""),
        // The namespace of a bound code is not told.
        (PLAIN, "GET", "/id/secret", UNTOLD),
        (PLAIN, "GET", "/id/secret?namespace=default", UNTOLD),
        (SCRAPER, "GET", "/id/order", r#"code "order"; allowed: none"#),
        (SCRAPER, "GET", "/parse/1", "requested without ?namespace=; allowed: none"),
    ] {
        let answer = guarded.call(method, uri, &[token]).await;
        assert_eq!(answer.status, 403, "{method} {uri}: {answer:?}");
        assert_eq!(answer.header("www-authenticate"), Some(FORBIDDEN));
        if method != "HEAD" {
            let detail = answer.problem(403, "forbidden");
            assert!(detail.contains(said), "{method} {uri}: {detail}");
        }
        forbidden += 2.0;
    }
    assert_eq!(guarded.refused("forbidden").await, forbidden);
    assert_eq!(guarded.ids_issued().await, issued);

    let web_bounds = format!("{BOUNDS}&namespace=web");
    for (token, uri, status) in [
        (SHOP, "/id/order", 200),
        (SHOP, "/id/invoice:2026", 200),
        (SHOP, "/ids/%69nvoice:?n=2&namespace=default", 200),
        (SHOP, "/parse/1", 200),
        (SHOP, "/health", 200),
        (WEB, "/id/anything?namespace=web", 200),
        (WEB, "/id/page", 200),
        (WEB, "/parse/1?namespace=web", 200),
        (WEB, "/parse/1?layout=twitter", 200),
        (WEB, "/parse/SEC-1?layout=twitter", 200),
        (PLAIN, "/parse/SEC-1?layout=twitter", 400),
        (WEB, &web_bounds, 200),
        (SCRAPER, "/metrics", 200),
        (SCRAPER, "/health", 200),
        (SCRAPER, "/nowhere", 404),
        (ALL, "/id/page?namespace=default", 400),
    ] {
        assert_eq!(guarded.call("GET", uri, &[token]).await.status, status, "{uri}");
    }
    guarded.stop().await;
}

#[tokio::test]
async fn limited_token_cannot_probe_for_other_namespaces() {
    let guarded = Guarded::start().await;
    for (token, uri, status) in [
        // Prefixes: THI- is of a namespace that neither token may use, TXI- is of none.
        (PLAIN, "/parse/{THI-}1", 400),
        (PLAIN, "/parse/{THI-}1?namespace=default", 400),
        (PLAIN, "/parse/{THI-}1?encoding=hex", 400),
        (PLAIN, "/parse/{THI-}1?layout=twitter", 400),
        (WEB, "/parse/{THI-}1", 403),
        (WEB, "/parse/{THI-}1?namespace=web", 400),
        (WEB, "/parse/{THI-}1?namespace=default", 403),
        // Codes, for tokens that may not use the namespace of unbound ones either.
        (WEB, "/id/{third}", 403),
        (WEB, "/id/{third}?namespace=default", 403),
        // Namespaces.
        (PLAIN, "/id/order?namespace={hidden}", 403),
        (PLAIN, "/parse/1?namespace={hidden}", 403),
        (PLAIN, "/parse/THI-1?namespace={hidden}", 403),
        (PLAIN, "/id/secret?namespace={hidden}", 403),
    ] {
        let (before, rest) = uri.split_once('{').expect("a part that is replaced");
        let (hidden, after) = rest.split_once('}').expect("its end");
        let unknown = match hidden {
            "THI-" => "TXI-",
            "third" => "other",
            _ => "absent",
        };
        let [known, unknown] =
            [hidden, unknown].map(|part| (format!("{before}{part}{after}"), part));
        let mut told = Vec::new();
        for (uri, part) in [known, unknown] {
            let answer = guarded.call("GET", &uri, &[token]).await;
            assert_eq!(answer.status, status, "{uri}: {answer:?}");
            told.push(answer.body.replace(part, "…"));
        }
        assert_eq!(told[0], told[1], "{uri}");
    }
    guarded.stop().await;
}

#[tokio::test]
async fn limited_token_sees_only_its_namespaces() {
    let guarded = Guarded::start().await;
    for (token, names) in [
        (ALL, &["default", "hidden", "web"][..]),
        (PLAIN, &["default"]),
        (WEB, &["web"]),
        (SCRAPER, &[]),
    ] {
        let health = guarded.call("GET", "/health", &[token]).await.json();
        let namespaces = health["namespaces"].as_object();
        let told: Vec<_> = namespaces.into_iter().flat_map(|told| told.keys()).collect();
        assert_eq!(told, names, "{health}");
        assert_eq!(health["status"], "ok", "the sum is of all");
    }
    guarded.stop().await;
}

#[tokio::test]
async fn the_api_document_says_what_needs_a_token() {
    let guarded = Guarded::start().await;
    let document = guarded.call("GET", "/openapi.json", &[ALL]).await.json();
    assert_eq!(document["security"], serde_json::json!([{"bearer": []}]));
    assert_eq!(document["paths"]["/livez"]["get"]["security"], serde_json::json!([]));
    assert_eq!(document["paths"]["/id/{code}"]["get"]["security"], serde_json::Value::Null);
    guarded.stop().await;
}

#[tokio::test]
async fn preflights_need_no_token_and_refusals_are_readable() {
    let guarded = Guarded::start().await;
    let preflight = [
        ORIGIN,
        ("access-control-request-method", "GET"),
        ("access-control-request-headers", "authorization"),
    ];
    for uri in ["/id/order", "/ids/order", "/parse/1", "/bounds"] {
        let answer = guarded.call("OPTIONS", uri, &preflight).await;
        assert_eq!(answer.status, 200, "{uri}");
        assert_eq!(answer.header("access-control-allow-headers"), Some("*,authorization"));
        for token in [None, Some(SCRAPER)] {
            let headers: Vec<_> = [ORIGIN].into_iter().chain(token).collect();
            let answer = guarded.call("GET", uri, &headers).await;
            let refused = [401, 403].contains(&answer.status.as_u16()) || uri == "/bounds";
            assert!(refused, "{uri} {answer:?}");
            assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{uri}");
        }
    }
    guarded.stop().await;
}
