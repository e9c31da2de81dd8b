//! The console: its files, its settings, and the listeners that serve it. `make console-test` opens
//! it in a browser.

use std::{io::Read as _, time::Duration};

use flate2::read::GzDecoder;
use reqwest::{Client, Method, Response};
use serde_json::Value;

use crate::{serving::Served, support::token_entry};

const ALL: [(&str, &str); 2] =
    [("/", "text/html; charset=utf-8"), ("/docs", "text/html; charset=utf-8")];

async fn send(served: &Served, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let url = format!("http://{}{path}", served.address);
    let mut request = Client::new().request(method, url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.expect("an answer")
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    let value = response.headers().get(name);
    value.unwrap_or_else(|| panic!("{name}: {response:?}")).to_str().expect("ASCII")
}

/// The settings in a page.
async fn settings(response: Response) -> Value {
    let text = response.text().await.expect("a body");
    let (_, rest) = text.split_once("name=\"raindrop\" content='").expect("settings");
    let (json, _) = rest.split_once('\'').expect("an end");
    serde_json::from_str(json).expect("JSON")
}

/// The files that the texts name, and those that they name in turn.
async fn files(served: &Served) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut texts: Vec<String> = ALL.iter().map(|(path, _)| (*path).to_owned()).collect();
    while let Some(path) = texts.pop() {
        let text = served.get(&path).await.text().await.expect("a body");
        let named = text.split(['"', '\'']).filter_map(|part| {
            part.strip_prefix("/console/").or_else(|| part.strip_prefix("./")).map(str::to_owned)
        });
        for name in named {
            let path = format!("/console/{name}");
            if !found.contains(&path) {
                found.push(path.clone());
                texts.push(path);
            }
        }
    }
    found
}

#[tokio::test]
async fn every_file_has_its_type_and_a_strict_policy() {
    let served = Served::start(&[]).await;
    let files = files(&served).await;
    assert!(files.len() > 10, "{files:?}");
    let expected = |path: &String| match path.rsplit('.').next() {
        Some("css") => "text/css; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    };
    let files = files.iter().map(|path| (path.as_str(), expected(path)));
    let (mut compressed, mut chinese) = (0, 0);
    for (path, content_type) in ALL.into_iter().chain(files) {
        let answer = served.get(path).await;
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(header(&answer, "content-type"), content_type, "{path}");
        assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
        assert_eq!(header(&answer, "referrer-policy"), "no-referrer");
        assert_eq!(header(&answer, "cache-control"), "no-cache");
        let policy = header(&answer, "content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert!(answer.headers().get("access-control-allow-origin").is_none(), "{path}");

        let head = send(&served, Method::HEAD, path, &[]).await;
        assert_eq!(header(&head, "etag"), header(&answer, "etag"), "{path}");
        let length: usize = header(&head, "content-length").parse().expect("a length");
        let tag = header(&answer, "etag").to_owned();
        let text = answer.text().await.expect("a body");
        assert_eq!(text.len(), length, "{path}");
        let gzipped = send(&served, Method::GET, path, &[("accept-encoding", "gzip")]).await;
        assert_eq!(header(&gzipped, "content-encoding"), "gzip", "{path}");
        assert_eq!(header(&gzipped, "vary"), "accept-encoding", "{path}");
        let bytes = gzipped.bytes().await.expect("a body");
        // Only readers of Chinese load its texts.
        let loaded = if path.ends_with("/zh.js") { &mut chinese } else { &mut compressed };
        *loaded += bytes.len();
        let mut unpacked = String::new();
        GzDecoder::new(&*bytes).read_to_string(&mut unpacked).expect("gzip");
        assert_eq!(unpacked, text, "{path}");
        let kept = send(&served, Method::GET, path, &[("if-none-match", &tag)]).await;
        assert_eq!((kept.status().as_u16(), header(&kept, "etag")), (304, &*tag), "{path}");
        assert_eq!(kept.text().await.expect("a body"), "");
    }
    assert!(compressed < 45_000, "a telephone loads {compressed} bytes");
    assert!((1..8_000).contains(&chinese), "and {chinese} bytes for Chinese");
    for (method, path, status) in [
        (Method::POST, "/", 405),
        (Method::POST, "/console/app.js", 405),
        (Method::GET, "/console/index.html", 404),
        (Method::GET, "/console/..%2fapp.js", 404),
        (Method::GET, "/console/", 404),
        (Method::GET, "/docs/", 404),
    ] {
        let answer = send(&served, method, path, &[]).await;
        assert_eq!(answer.status().as_u16(), status, "{path}");
        assert_eq!(header(&answer, "content-type"), "application/problem+json", "{path}");
    }
    served.stop().await;
}

#[tokio::test]
async fn disabled_console_is_404() {
    let served =
        Served::start(&[("http.console", "false"), ("http.admin_listen", "127.0.0.1:0")]).await;
    let admin = served.admin.expect("a listener");
    for path in ["/", "/docs", "/console/app.js"] {
        assert_eq!(served.get(path).await.status(), 404, "{path}");
        let answer = reqwest::get(format!("http://{admin}{path}")).await.expect("an answer");
        assert_eq!(answer.status(), 404, "{path}");
        let detail = answer.json::<Value>().await.expect("JSON")["detail"].to_string();
        assert!(detail.contains("http.console is false"), "{detail}");
    }
    assert_eq!(served.get("/openapi.json").await.status(), 200);
    served.stop().await;
}

#[tokio::test]
async fn pages_offer_only_what_their_listener_serves() {
    let served = Served::start(&[
        ("http.admin_listen", "127.0.0.1:0"),
        ("http.max_batch", "77"),
        ("namespaces.js.layout.preset", "js-safe"),
    ])
    .await;
    let admin = served.admin.expect("a listener");
    let public = settings(served.get("/").await).await;
    let page = reqwest::get(format!("http://{admin}/")).await.expect("an answer");
    let operators = settings(page).await;
    let has = |settings: &Value, part: &str| {
        settings["parts"].as_array().expect("parts").contains(&part.into())
    };
    for (part, is_public, is_operators) in
        [("try", true, false), ("inspect", true, true), ("cluster", false, true)]
    {
        assert_eq!(has(&public, part), is_public, "{part}: {public}");
        assert_eq!(has(&operators, part), is_operators, "{part}: {operators}");
    }
    assert_eq!((&public["metrics"], &operators["metrics"]), (&false.into(), &true.into()));
    assert_eq!((&public["needs_token"], &public["max_batch"]), (&false.into(), &77.into()));
    let namespaces = serde_json::json!([["default", "t41w9l1s12"], ["js", "t50w5l1s7"]]);
    assert_eq!(public["namespaces"], namespaces);
    let has =
        |list: &str, layout: Value| public[list].as_array().expect("layouts").contains(&layout);
    assert!(has("presets", serde_json::json!(["node", "t41d3w5l2s12"])));
    assert!(has("presets", serde_json::json!(["sonyflake", "t39s8w16"])));
    assert!(has("foreign", serde_json::json!(["seata", "w10t41s12"])));
    // Every request that the operators' page offers is answered.
    for path in ["/parse/249679838552547328", "/openapi.json", "/metrics", "/cluster"] {
        let answer = reqwest::get(format!("http://{admin}{path}")).await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
    }
    served.stop().await;
}

#[tokio::test]
async fn page_needs_no_token_and_says_that_requests_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tokens.toml");
    let hash = "0".repeat(64);
    std::fs::write(&file, format!("[[token]]\nname = \"a\"\nhash = \"sha256:{hash}\"\n"))
        .expect("written");
    let path = file.to_str().expect("UTF-8");
    let served = Served::start(&[("auth.tokens_file", path)]).await;
    let page = served.get("/").await;
    assert_eq!(page.status(), 200);
    assert_eq!(settings(page).await["needs_token"], true);
    assert_eq!(served.get("/console/app.js").await.status(), 200);
    for path in ["/id/order", "/openapi.json", "/metrics", "/nowhere"] {
        assert_eq!(served.get(path).await.status(), 401, "{path}");
    }
    served.stop().await;
}

#[tokio::test]
async fn api_document_can_be_cached_and_read_across_origins() {
    let served = Served::start(&[("http.cors_origins", "https://app.example")]).await;
    let origin = ("origin", "https://app.example");
    let answer = send(&served, Method::GET, "/openapi.json", &[origin]).await;
    assert_eq!(header(&answer, "access-control-allow-origin"), "https://app.example");
    let vary: Vec<_> = answer.headers().get_all("vary").iter().collect();
    assert_eq!(vary, ["accept-encoding", "origin"]);
    assert_eq!(header(&answer, "cache-control"), "no-cache");
    let tag = header(&answer, "etag").to_owned();
    let headers = [origin, ("if-none-match", tag.as_str())];
    let kept = send(&served, Method::GET, "/openapi.json", &headers).await;
    assert_eq!(kept.status(), 304);
    assert_eq!(header(&kept, "access-control-allow-origin"), "https://app.example");
    let other = [("origin", "https://other.example")];
    let other = send(&served, Method::GET, "/openapi.json", &other).await;
    assert!(other.headers().get("access-control-allow-origin").is_none());
    // A stop waits for answers that are still read.
    drop((answer, other));
    served.stop().await;
}

#[tokio::test]
async fn cluster_contains_the_last_ten_minutes_of_this_node() {
    let served = Served::start(&[("http.admin_listen", "127.0.0.1:0")]).await;
    assert_eq!(served.get("/ids/order?n=7").await.status(), 200);
    let url = format!("http://{}/cluster", served.admin.expect("a listener"));
    // From here on time passes only while nothing else is to be done.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(25)).await;
    tokio::time::resume();
    let cluster: Value = reqwest::get(url).await.expect("an answer").json().await.expect("JSON");
    let history = &cluster["history"];
    assert_eq!(history["every_seconds"], 10);
    let default = &history["namespaces"]["default"];
    let counts = |name: &str| -> Vec<u64> {
        let counts = default[name].as_array().unwrap_or_else(|| panic!("{name}: {history}"));
        counts.iter().map(|count| count.as_u64().expect("a count")).collect()
    };
    assert!(counts("issued").len() >= 2, "{history}");
    assert_eq!(counts("issued").iter().sum::<u64>(), 7, "{history}");
    for name in ["waited", "refused", "rollbacks"] {
        assert_eq!(counts(name), vec![0; counts("issued").len()], "{history}");
    }
    served.stop().await;
}

#[tokio::test]
async fn operators_pages_are_only_on_the_admin_listener() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    let entry = token_entry("admin", "secret") + "permissions = ['admin']\n";
    std::fs::write(&path, entry).expect("written");
    let tokens = ("auth.tokens_file", path.to_str().expect("UTF-8"));
    for (more, is_public) in [(vec![], true), (vec![("http.admin_listen", "127.0.0.1:0")], false)] {
        let served = Served::start(&[vec![tokens], more].concat()).await;
        let page = settings(served.get("/").await).await;
        let parts = page["parts"].as_array().expect("parts");
        assert_eq!(parts.contains(&"cluster".into()), is_public, "{page}");
        // The requests need no more than the permission.
        let request = reqwest::Client::new().get(format!("http://{}/cluster", served.address));
        let answer = request.bearer_auth("secret").send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        served.stop().await;
    }
}
