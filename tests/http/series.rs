//! Series of codes, whose members requests create.

use std::sync::Arc;

use raindrop::{
    core::clock::SystemClock,
    store::{MemoryStore, SegmentStore},
};
use serde_json::{Value, json};

use crate::{
    serving::Served,
    support::{World, config_of},
};

const BRANCHES: &str = "
    [issue]
    max_wait = '200ms'
    [http]
    admin_listen = '127.0.0.1:0'
    admin_changes = true
    [namespaces.numbers]
    mode = 'segment'
    codes.max = 20
    [[code]]
    name = 'invoice:*'
    namespace = 'numbers'
    text = 'INV-{*}-{n:04}'
    strict = true
    failover_gap = 0
    [[code]]
    name = 'order:*'
    namespace = 'numbers'
    start = 100
    prefix = 'O-'
    [[code]]
    name = 'order:own'
    namespace = 'numbers'
";

async fn world(store: &Arc<MemoryStore>) -> World {
    let clock = Arc::new(SystemClock::default());
    let world = World::with_config(config_of(BRANCHES), store.clone(), clock);
    world.until_issuing().await;
    world
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock::default())))
}

#[tokio::test]
async fn members_are_created_on_demand_and_their_texts_are_read_back() {
    let store = memory();
    let (one, two) = (world(&store).await, world(&store).await);
    let read = one.get("/parse/INV-paris-0007?code=invoice:paris").await.json();
    let expected = json!({ "code": "invoice:paris", "namespace": "numbers", "number": "7" });
    assert_eq!(read, expected, "before the member exists");
    for (node, uri, body) in [
        (&one, "/id/invoice:paris", r#"{"id":"INV-paris-0001"}"#),
        (&two, "/ids/invoice:paris?n=2", r#"{"ids":["INV-paris-0002","INV-paris-0003"]}"#),
        (&two, "/id/invoice:rome", r#"{"id":"INV-rome-0001"}"#),
        (&one, "/id/invoice%3A2024", r#"{"id":"INV-2024-0001"}"#),
        (&one, "/id/order:paris", r#"{"id":"O-100"}"#),
        (&one, "/id/order:own", r#"{"id":"1"}"#),
        (&one, "/id/invoice:paris?namespace=numbers", r#"{"id":"INV-paris-0004"}"#),
    ] {
        let answer = node.call("POST", uri, &[]).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, body), "{uri}");
    }
    let detail = one.get("/parse/INV-rome-0001?code=invoice:paris").await;
    assert!(detail.problem(400, "invalid_id").contains("not of the form INV-paris-{n:04}"));
}

/// Names that no member may have create nothing, and are not taken for codes of another namespace.
#[tokio::test]
async fn other_names_are_no_members() {
    let store = memory();
    let world = world(&store).await;
    for (uri, status, problem) in [
        ("/id/invoice:saint-denis", 404, "unknown_code"),
        ("/id/invoice:a:b", 404, "unknown_code"),
        ("/id/order:own?namespace=default", 400, "invalid_parameter"),
        ("/id/order:x?namespace=default", 400, "invalid_parameter"),
        ("/id/invoice:*", 400, "invalid_code"),
        (
            "/id/invoice:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            400,
            "invalid_code",
        ),
    ] {
        world.call("POST", uri, &[]).await.problem(status, problem);
    }
    // A GET is refused before it creates a member.
    let refused = world.get("/id/invoice:paris").await.problem(400, "invalid_parameter");
    assert!(refused.contains("requires POST"), "{refused}");
    assert_eq!(store.count_segments("numbers").await.expect("up"), 1, "the configured one");
}

/// A flood of made-up names ends at `codes.max`, and takes no label of a metric.
#[tokio::test]
async fn made_up_members_end_at_the_bound() {
    let world = world(&memory()).await;
    let mut refused = 0;
    for index in 0..60 {
        let answer = world.call("POST", &format!("/id/invoice:x{index}"), &[]).await;
        match answer.status.as_u16() {
            200 => {}
            _ => {
                assert!(answer.header("retry-after").is_some());
                answer.problem(429, "too_many_codes");
                refused += 1;
            }
        }
    }
    // One code is configured.
    assert_eq!(refused, 60 - 19);
    let answer = world.call("POST", "/id/invoice:x3", &[]).await;
    assert_eq!(answer.body, r#"{"id":"INV-x3-0002"}"#, "members that exist are served");
    let metrics = world.get("/metrics").await.body;
    assert!(!metrics.contains("invoice:"), "{metrics}");
}

#[tokio::test]
async fn operators_see_members_and_cannot_manage_a_series() {
    let served = Served::ready_with(config_of(BRANCHES), memory()).await;
    let claim = reqwest::Client::new().post(format!("http://{}/id/invoice:paris", served.address));
    assert_eq!(claim.send().await.expect("an answer").status(), 200);
    let operate = async |method: &str, path: &str, body: Value| {
        let url = format!("http://{}{path}", served.admin.expect("a listener for operators"));
        let request = reqwest::Client::new().request(method.parse().expect("a method"), url);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json::<Value>().await.expect("JSON"))
    };
    let (_, listed) = operate("GET", "/codes", json!({})).await;
    let codes = listed["codes"].as_array().expect("a list").iter().map(|code| &code["code"]);
    assert_eq!(codes.collect::<Vec<_>>(), ["invoice:paris", "order:own"]);
    let (_, code) = operate("GET", "/codes/invoice:paris", json!({})).await;
    let shown = ["kind", "path", "next_text", "text", "strict"].map(|key| code[key].clone());
    let path = "/id/invoice:paris?namespace=numbers";
    let expected = [
        json!("automatic"),
        json!(path),
        json!("INV-paris-0002"),
        json!("INV-paris-{n:04}"),
        json!(true),
    ];
    assert_eq!(shown, expected);
    // A member may get settings of its own, as far as issued numbers allow it.
    let (status, code) = operate("PUT", "/codes/invoice:lyon", json!({ "start": 500 })).await;
    assert_eq!((status, &code["next_text"]), (201, &json!("INV-lyon-0500")));
    for settings in [json!({ "text": "L-{n}" }), json!({ "strict": false })] {
        let (status, problem) = operate("PUT", "/codes/invoice:rome", settings).await;
        assert_eq!((status, &problem["code"]), (409, &json!("conflict")), "{problem}");
    }
    for (method, path) in [
        ("PUT", "/codes/credit:*?namespace=numbers"),
        ("GET", "/codes/invoice:*"),
        ("POST", "/codes/invoice:*/raise"),
    ] {
        let (status, problem) = operate(method, path, json!({ "by": 1 })).await;
        assert_eq!((status, &problem["code"]), (400, &json!("invalid_code")), "{path}: {problem}");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains("is a series, which only a [[code]] entry"), "{path}: {detail}");
    }
}
