//! Codes that operators manage over HTTP.

use std::sync::Arc;

use raindrop::{
    core::clock::SystemClock,
    store::{MemoryStore, NewSegment, SegmentStore},
};
use serde_json::{Value, json};

use crate::{
    api::assert_documented,
    serving::Served,
    support::{Answer, config_of, token_entry},
};

const NUMBERS: [(&str, &str); 3] =
    [("mode", "segment"), ("http.admin_listen", "127.0.0.1:0"), ("issue.max_wait", "500ms")];
/// Every client that reaches the admin listener may change codes.
const CHANGES: (&str, &str) = ("http.admin_changes", "true");

/// A service of segments with a listener for operators.
async fn operated(store: Arc<MemoryStore>, more: &[(&str, &str)]) -> Served {
    let pairs = [&NUMBERS[..], &[CHANGES], more].concat();
    Served::ready_over(&pairs, store).await
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock::default())))
}

/// Sends a request; the answer must be documented.
async fn send(url: &str, method: &str, body: Option<&Value>, headers: &[(&str, &str)]) -> Answer {
    let verb = method.parse().expect("a method");
    let mut request = reqwest::Client::new().request(verb, url);
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.expect("an answer");
    let (status, headers) = (answer.status(), answer.headers().clone());
    let answer = Answer { status, headers, body: answer.text().await.expect("a body") };
    let path = url.splitn(4, '/').nth(3).expect("a path");
    assert_documented(method, &format!("/{path}"), &answer);
    answer
}

impl Served {
    async fn operate(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let url = format!("http://{}{path}", self.admin.expect("a listener for operators"));
        send(&url, method, body.as_ref(), &[]).await
    }

    async fn number(&self, path: &str) -> (u16, Value) {
        let answer = self.get(path).await;
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }
}

#[tokio::test]
async fn code_shows_how_many_numbers_this_node_has_left() {
    let store = memory();
    let nodes = [operated(store.clone(), &[]).await, operated(store.clone(), &[]).await];
    let [one, other] = &nodes;
    let settings = json!({ "start": "1000", "min_step": 10, "max_step": 10 });
    assert_eq!(one.operate("PUT", "/codes/order", Some(settings)).await.status, 201);
    for _ in 0..3 {
        assert_eq!(one.number("/id/order").await.0, 200);
    }
    // The node reserves ahead: it may do so between the two readings of an answer.
    let issued = async || {
        let code = one.operate("GET", "/codes/order", None).await.json();
        let next: u64 = code["next"].as_str().expect("a text").parse().expect("a number");
        next - 1000 - code["in_hand"].as_u64().expect("a number")
    };
    while issued().await != 3 {}
    let code = other.operate("GET", "/codes/order", None).await.json();
    assert_eq!(code["in_hand"], 0, "{code}");
    let list = one.operate("GET", "/codes", None).await.json();
    assert!(list["codes"][0]["in_hand"].as_u64().is_some_and(|count| count > 0), "{list}");
    for served in nodes {
        served.stop().await;
    }
}

#[tokio::test]
async fn a_code_is_created_changed_raised_and_retired_while_nodes_run() {
    let store = memory();
    let nodes = [operated(store.clone(), &[]).await, operated(store.clone(), &[]).await];
    let [one, other] = &nodes;
    assert_eq!(one.number("/id/order").await.0, 404);
    let answer = one.operate("GET", "/codes/order", None).await;
    answer.problem(404, "unknown_code");

    let settings = json!({ "start": "1000", "min_step": 10, "max_step": 10, "js_safe": true });
    let created = one.operate("PUT", "/codes/order", Some(settings.clone())).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.header("cache-control"), Some("no-store"));
    let code = created.json();
    for (field, value) in [
        ("namespace", json!("default")),
        ("code", json!("order")),
        ("kind", json!("managed")),
        ("next", json!("1000")),
        ("step", json!(0)),
        ("reserved_at", Value::Null),
        ("start", json!("1000")),
        ("min_step", json!(10)),
        ("max", json!("9007199254740991")),
        ("js_safe", json!(true)),
        ("path", json!("/id/order")),
    ] {
        assert_eq!(code[field], value, "{field} of {code}");
    }
    assert_eq!(one.operate("PUT", "/codes/order", Some(settings)).await.status, 200);
    // Both know it at once, and no number comes twice.
    assert_eq!(one.number("/id/order").await, (200, json!({ "id": "1000" })));
    let (status, id) = other.number("/id/order").await;
    assert!(status == 200 && id["id"].as_str().expect("text") >= "1010", "{id}");

    let patched = one.operate("PATCH", "/codes/order", Some(json!({ "max_step": 500 }))).await;
    assert_eq!((patched.status.as_u16(), &patched.json()["max_step"]), (200, &json!(500)));
    assert_eq!(patched.json()["min_step"], 10, "the rest stays");
    let raised = one.operate("POST", "/codes/order/raise", Some(json!({ "to": 50_000 }))).await;
    assert_eq!(raised.json()["next"], "50000");
    let raised = one.operate("POST", "/codes/order/raise", Some(json!({ "by": "7" }))).await;
    assert_eq!(raised.json()["next"], "50007");
    let listed = other.operate("GET", "/codes", None).await.json();
    assert_eq!(listed["codes"].as_array().expect("codes").len(), 1);
    assert_eq!(
        (&listed["codes"][0]["code"], &listed["has_more"]),
        (&json!("order"), &json!(false))
    );
    assert_eq!(other.operate("GET", "/codes?after=order", None).await.json()["codes"], json!([]));

    let retired = one.operate("POST", "/codes/order/retire", None).await;
    assert_eq!((retired.status.as_u16(), &retired.json()["kind"]), (200, &json!("retired")));
    let (status, problem) = one.number("/id/order").await;
    assert_eq!((status, &problem["code"]), (410, &json!("retired_code")), "{problem}");
    let put = one.operate("PUT", "/codes/order", Some(json!({}))).await;
    put.problem(409, "conflict");
    assert_eq!(one.number("/readyz").await.0, 200, "it is no trouble");
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn every_node_knows_the_form_of_a_new_code_at_once() {
    let store = memory();
    let nodes = [operated(store.clone(), &[]).await, operated(store.clone(), &[]).await];
    let [one, other] = &nodes;
    let settings = json!({ "text": "INV/{n:04}", "min_step": 10 });
    let created = one.operate("PUT", "/codes/invoice", Some(settings.clone())).await;
    assert_eq!(created.status, 201);
    let code = created.json();
    assert_eq!((&code["text"], &code["next_text"]), (&json!("INV/{n:04}"), &json!("INV/0001")));
    // The first request of a node is for a range, as a client that buffers sends it.
    let (status, problem) = other.number("/ids/invoice?format=range&up_to=9").await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid_parameter")), "{problem}");
    assert_eq!(other.number("/id/invoice").await, (200, json!({ "id": "INV/0001" })));
    assert_eq!(other.number("/parse/INV%2F0001?code=invoice").await.1["number"], "1");

    for body in [json!({}), json!({ "text": "INV/{n:03}" }), json!({ "text": "R/{n:04}" })] {
        let put = one.operate("PUT", "/codes/invoice", Some(body)).await;
        let detail = put.problem(409, "conflict");
        assert!(detail.contains("its numbers stay INV/{n:04}"), "{detail}");
    }
    let wider = json!({ "text": "INV/{n:05}" });
    let preview = one.operate("PATCH", "/codes/invoice?dry_run=true", Some(wider.clone())).await;
    let preview = preview.json();
    let next: u64 = preview["next"].as_str().expect("a text").parse().expect("a number");
    assert_eq!(preview["next_text"], format!("INV/{next:05}"));
    let patched = one.operate("PATCH", "/codes/invoice", Some(wider)).await;
    assert_eq!(patched.json()["text"], "INV/{n:05}");
    let plain = one.operate("PUT", "/codes/plain", Some(json!({}))).await.json();
    assert!(plain.get("text").is_none() && plain.get("next_text").is_none(), "{plain}");
    let retired = one.operate("POST", "/codes/invoice/retire", None).await.json();
    assert!(retired.get("next_text").is_none(), "{retired}");
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn wrong_change_is_refused_with_its_place_and_writes_nothing() {
    let store = memory();
    let served = operated(store.clone(), &[("codes.allow", "fixed")]).await;
    let put = async |path: &str, body: &str| {
        let url = format!("http://{}{path}", served.admin.expect("operators"));
        let body: Value = serde_json::from_str(body).expect("JSON");
        send(&url, "PUT", Some(&body), &[]).await
    };
    for (body, said) in [
        (r#"{"colour":1}"#, "colour"),
        (r#"{"min_step":0}"#, "min_step = 0"),
        (r#"{"min_step":0,"remainder":5}"#, "remainder = 5"),
        (r#"{"start":"12x"}"#, "12x"),
        (r#"{"js_safe":true,"max":"9007199254740992"}"#, "9007199254740991"),
        (r#"{"min_step":"10 "}"#, "10 "),
        (r#"{"text":null}"#, "the body: text: invalid value: null, expected a form"),
        (r#"{"text":""}"#, "the body: text: \"\" is no form of numbers"),
        ("[1, 2, 3, 4, 0, 9, true]", "must be a JSON object"),
    ] {
        let detail = put("/codes/order", body).await.problem(400, "invalid_parameter");
        assert!(detail.contains(said), "{body}: {detail}");
    }
    put("/codes/a%20b", "{}").await.problem(400, "invalid_code");
    let detail = put("/codes/fixed", "{}").await.problem(409, "conflict");
    assert!(detail.contains("configuration"), "{detail}");
    put("/codes/order?namespace=other", "{}").await.problem(404, "unknown_namespace");
    for (path, body) in [
        ("/codes/order/raise", json!({})),
        ("/codes/order/raise", json!({ "by": 1, "to": 2 })),
        ("/codes/order/raise", json!({ "by": 0 })),
        ("/codes/order/raise", json!({ "by": [1] })),
        ("/codes/order/raise", json!({ "by": -1 })),
        ("/codes/order/raise", json!({ "by": 1, "to": null })),
    ] {
        served.operate("POST", path, Some(body)).await.problem(400, "invalid_parameter");
    }
    let raise = served.operate("POST", "/codes/order/raise", Some(json!({ "by": 1 }))).await;
    raise.problem(404, "unknown_code");
    let patch = served.operate("PATCH", "/codes/order", Some(json!({}))).await;
    patch.problem(409, "conflict");
    served.operate("POST", "/codes/order/retire", None).await.problem(409, "conflict");

    let url = format!("http://{}/codes/order", served.admin.expect("operators"));
    for (content_type, status) in [("text/plain", 415), ("application/x-www-form-urlencoded", 415)]
    {
        let request = reqwest::Client::new().put(&url).header("content-type", content_type);
        let answer = request.body("{}").send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{content_type}");
    }
    let retire = served.operate("POST", "/codes/order/retire", Some(json!({}))).await;
    retire.problem(415, "unsupported_media_type");
    for path in ["/codes/order/raise", "/codes/order/retire"] {
        served.operate("GET", path, None).await.problem(405, "method_not_allowed");
    }
    assert!(store.list_managed_codes("default").await.expect("up").is_empty());
    assert_eq!(store.list_segments().await.expect("up").len(), 1, "the configured one");

    put("/codes/new", "{}").await;
    let (url, body) = (url.replace("order", "new"), json!({}));
    let exists = send(&url, "PUT", Some(&body), &[("if-none-match", "*")]);
    exists.await.problem(412, "precondition_failed");
    let fixed = served.operate("PATCH", "/codes/new", Some(json!({ "increment": 2 }))).await;
    assert!(fixed.problem(409, "conflict").contains("increment"));
    served.stop().await;
}

/// A page ends behind a name, whichever namespaces have it, and costs what it lists.
#[tokio::test]
async fn pages_of_the_list_contain_every_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    let some = token_entry("some", "for-some")
        + "permissions = ['admin']\ncodes = ['code-2*', 'code-9']\n";
    std::fs::write(&path, token_entry("all", "for-all") + "permissions = ['admin']\n" + &some)
        .expect("written");
    let store = memory();
    let mut pairs = vec![("auth.tokens_file", path.to_str().expect("UTF-8"))];
    let names = ["a", "b", "c"];
    let keys = names.map(|name| format!("namespaces.{name}.mode"));
    pairs.extend(keys.iter().map(|key| (key.as_str(), "segment")));
    let served = Served::ready_over(&pairs, store.clone()).await;
    let new = |number: u64| NewSegment { code: format!("code-{number}"), first: 1 };
    // The last code of the first page is the first of three namespaces' codes with its name.
    let one: Vec<_> = (1001..2000).map(new).collect();
    store.create_segments("b", &one).await.expect("made");
    for name in names {
        store.create_segments(name, &[new(2000)]).await.expect("made");
    }
    store.create_segments("c", &(2001..3100).map(new).collect::<Vec<_>>()).await.expect("made");
    // Others may keep what is no code in the same table.
    let stray = |number: u64| NewSegment { code: format!("code-2500@{number}"), first: 1 };
    store.create_segments("c", &(0..1500).map(stray).collect::<Vec<_>>()).await.expect("made");
    for (token, pages) in [("for-all", &[1002, 1000, 99][..]), ("for-some", &[1000, 2])] {
        let (mut after, mut listed) = (String::new(), Vec::new());
        for (page, size) in pages.iter().enumerate() {
            let url = format!("http://{}/codes{after}", served.address);
            let authorization = format!("Bearer {token}");
            let answer = send(&url, "GET", None, &[("authorization", &authorization)]).await.json();
            let codes = answer["codes"].as_array().expect("codes");
            assert_eq!(codes.len(), *size, "{token}, page {page}");
            assert_eq!(answer["has_more"], page + 1 < pages.len(), "{token}, page {page}");
            let name = |code: &Value| (code["code"].to_string(), code["namespace"].to_string());
            listed.extend(codes.iter().map(name));
            let last = codes.last().expect("a code")["code"].as_str().expect("text");
            after = format!("?after={last}");
        }
        assert!(listed.is_sorted_by(|one, other| one < other), "{token}: each once, by name");
    }
    served.stop().await;
}

#[tokio::test]
async fn pages_of_other_sites_cannot_change_codes() {
    let served = operated(memory(), &[]).await;
    let url = format!("http://{}/codes/order", served.admin.expect("operators"));
    let body = json!({});
    for headers in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
    ] {
        send(&url, "PUT", Some(&body), headers).await.problem(403, "forbidden");
    }
    let own = format!("http://{}", served.admin.expect("operators"));
    for headers in [&[("origin", own.as_str())][..], &[("sec-fetch-site", "same-origin")], &[]] {
        assert!(send(&url, "PUT", Some(&body), headers).await.status.is_success());
    }
    served.stop().await;
}

#[tokio::test]
async fn codes_on_the_public_listener_need_the_admin_permission() {
    let open = Served::ready_over(&[("mode", "segment")], memory()).await;
    assert_eq!(open.get("/codes").await.status(), 404);
    assert_eq!(open.get("/cluster").await.status(), 404);
    open.stop().await;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    let admin = token_entry("admin", "for-admins") + "permissions = ['admin']\n";
    let some = token_entry("some", "for-some")
        + "permissions = ['admin']\ncodes = ['shop:*']\nnamespaces = ['default']\n";
    std::fs::write(&path, admin + &some + &token_entry("shop", "for-shops")).expect("written");
    let text = format!(
        "mode = 'segment'\nauth.tokens_file = '{}'\n\
         [namespaces.hidden]\n[[code]]\nname = 'shop:2'\nnamespace = 'hidden'\n",
        path.display()
    );
    let served = Served::ready_with(config_of(&text), memory()).await;
    let ask = async |method: &str, path: &str, token: Option<&str>| {
        let url = format!("http://{}{path}", served.address);
        let token = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = token.iter().map(|token| ("authorization", token.as_str())).collect();
        let body = (method == "PUT").then(|| json!({}));
        send(&url, method, body.as_ref(), &headers).await
    };
    for (method, path) in [("GET", "/codes"), ("PUT", "/codes/order"), ("GET", "/cluster")] {
        ask(method, path, None).await.problem(401, "unauthorized");
        ask(method, path, Some("for-shops")).await.problem(403, "forbidden");
    }
    assert_eq!(ask("PUT", "/codes/order", Some("for-admins")).await.status, 201);
    assert_eq!(ask("GET", "/cluster", Some("for-admins")).await.status, 200);
    ask("GET", "/id/order", Some("for-admins")).await.problem(403, "forbidden");
    // One that may use some codes manages those alone.
    ask("PUT", "/codes/order", Some("for-some")).await.problem(403, "forbidden");
    assert_eq!(ask("PUT", "/codes/shop:1", Some("for-some")).await.status, 201);
    // Nor is it told where another one is.
    let elsewhere = ask("PUT", "/codes/shop:2", Some("for-some")).await;
    let detail = elsewhere.problem(403, "forbidden");
    assert!(!detail.contains("hidden"), "{detail}");
    ask("PUT", "/codes/shop:2", Some("for-admins")).await.problem(400, "invalid_parameter");
    let listed = ask("GET", "/codes", Some("for-some")).await.json();
    let codes = listed["codes"].as_array().expect("codes");
    assert_eq!((codes.len(), &codes[0]["code"]), (1, &json!("shop:1")), "{listed}");
    served.stop().await;
}

/// Whatever reaches the port can be made to send it a request; retiring a code cannot be undone.
#[tokio::test]
async fn changes_on_the_admin_listener_are_403_unless_enabled() {
    let closed = Served::ready_over(&NUMBERS, memory()).await;
    for (method, path, body) in [
        ("PUT", "/codes/order", Some(json!({}))),
        ("PATCH", "/codes/order", Some(json!({}))),
        ("POST", "/codes/order/raise", Some(json!({ "by": 1 }))),
        ("POST", "/codes/order/retire", None),
        ("POST", "/cluster/release", Some(json!({ "worker_id": 1 }))),
    ] {
        let refused = closed.operate(method, path, body).await;
        refused.problem(403, "forbidden");
        assert!(refused.body.contains("http.admin_changes = true"), "{}", refused.body);
    }
    assert_eq!(closed.operate("GET", "/codes", None).await.json()["codes"], json!([]));
    closed.stop().await;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    let admin = token_entry("admin", "for-admins") + "permissions = ['admin']\n";
    std::fs::write(&path, admin + &token_entry("shop", "for-shops")).expect("written");
    let tokens = ("auth.tokens_file", path.to_str().expect("UTF-8"));
    let served = Served::ready_over(&[&NUMBERS[..], &[tokens]].concat(), memory()).await;
    let url = format!("http://{}/codes/order", served.admin.expect("operators"));
    let put = async |headers: &[(&str, &str)]| send(&url, "PUT", Some(&json!({})), headers).await;
    put(&[]).await.problem(401, "unauthorized");
    put(&[("authorization", "Bearer for-shops")]).await.problem(403, "forbidden");
    assert_eq!(put(&[("authorization", "Bearer for-admins")]).await.status, 201);
    served.operate("POST", "/codes/order/retire", None).await.problem(401, "unauthorized");
    assert_eq!(served.operate("GET", "/codes/order", None).await.json()["kind"], "managed");
    served.stop().await;
}

#[tokio::test]
async fn second_release_of_a_worker_id_releases_nothing() {
    let pairs = [("http.admin_listen", "127.0.0.1:0"), CHANGES, ("worker.id", "9")];
    let served = Served::start(&pairs).await;
    let release = async |body: Value| served.operate("POST", "/cluster/release", Some(body)).await;
    release(json!({})).await.problem(400, "invalid_parameter");
    release(json!({ "worker_id": 100_000 })).await.problem(400, "invalid_parameter");
    release(json!({ "worker_id": 9, "namespace": "x" })).await.problem(404, "unknown_namespace");
    let released = release(json!({ "worker_id": 9, "namespace": "default" })).await;
    assert_eq!(released.json()["released"], true, "{}", released.body);
    assert!(released.json()["holder"].as_str().is_some_and(|holder| !holder.is_empty()));
    assert_eq!(release(json!({ "worker_id": 8 })).await.json(), json!({ "released": false }));
    served.stop().await;
}
