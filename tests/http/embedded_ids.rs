//! IDs in the types of an application that embeds the library.

use std::collections::BTreeMap;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Query},
    http::{Request, StatusCode},
    routing::get,
};
use raindrop::core::id::{Id, as_number};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tower::ServiceExt as _;
use utoipa::{OpenApi, ToSchema};

#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
struct Order {
    id: Id,
    previous: Option<Id>,
    #[serde(with = "as_number")]
    #[schema(value_type = i64)]
    number: Id,
    amounts: BTreeMap<Id, u32>,
}

fn id(number: u64) -> Id {
    Id::new(number).expect("63 bits")
}

#[test]
fn json_has_text_unless_a_field_asks_for_a_number() {
    let order = Order {
        id: id(249_679_838_552_547_328),
        previous: Some(Id::MAX),
        number: id(7),
        amounts: BTreeMap::from([(id(249_679_838_552_547_329), 2)]),
    };
    let value = json!({
        "id": "249679838552547328",
        "previous": "9223372036854775807",
        "number": 7,
        "amounts": {"249679838552547329": 2},
    });
    assert_eq!(serde_json::to_value(&order).expect("JSON"), value);
    assert_eq!(serde_json::from_value::<Order>(value).expect("an order"), order);
    let numbers = r#"{"id":249679838552547328,"previous":null,"number":"7","amounts":{}}"#;
    let read: Order = serde_json::from_str(numbers).expect("an order");
    assert_eq!((read.id, read.previous, read.number), (order.id, None, order.number));
    let unsafe_number = Order { number: Id::MAX, ..order };
    let error = serde_json::to_string(&unsafe_number).expect_err("readers would round it");
    assert!(error.to_string().starts_with("the ID 9223372036854775807 is above"), "{error}");
}

#[derive(Debug, Deserialize)]
struct Page {
    after: Id,
}

async fn page(Path((order, item)): Path<(Id, Id)>, Query(page): Query<Page>) -> String {
    format!("{order} {item} {}", page.after)
}

async fn one(Path(order): Path<Id>) -> String {
    order.to_string()
}

#[tokio::test]
async fn axum_reads_ids_from_paths_and_queries() {
    let router: Router = Router::new()
        .route("/orders/{order}", get(one))
        .route("/orders/{order}/items/{item}", get(page));
    for (target, status, said) in [
        ("/orders/249679838552547328", StatusCode::OK, "249679838552547328"),
        ("/orders/1/items/2?after=9223372036854775807", StatusCode::OK, "1 2 9223372036854775807"),
        ("/orders/x", StatusCode::BAD_REQUEST, "an ID, which is 0 to 9223372036854775807"),
        ("/orders/1/items/-2?after=3", StatusCode::BAD_REQUEST, "\"-2\", expected an ID"),
        ("/orders/1/items/2?after=", StatusCode::BAD_REQUEST, "\"\", expected an ID"),
    ] {
        let request = Request::get(target).body(Body::empty()).expect("a request");
        let response = router.clone().oneshot(request).await.expect("an answer");
        assert_eq!(response.status(), status, "{target}");
        let body = to_bytes(response.into_body(), 1 << 16).await.expect("a body");
        let body = String::from_utf8_lossy(&body);
        assert!(body.contains(said), "{target}: {body}");
    }
}

#[derive(OpenApi)]
#[openapi(components(schemas(Order)))]
struct Document;

#[test]
fn api_documents_describe_ids_as_the_service_does() {
    let document = serde_json::to_value(Document::openapi()).expect("JSON");
    let schemas = &document["components"]["schemas"];
    let order = &schemas["Order"]["properties"];
    assert_eq!(order["id"], json!({"$ref": "#/components/schemas/Id"}));
    assert_eq!(order["number"]["type"], "integer");
    let service = include_str!("../../docs/openapi.json");
    let service: serde_json::Value = serde_json::from_str(service).expect("JSON");
    let parsed = &service["components"]["schemas"]["ParsedId"]["properties"]["id"];
    for key in ["type", "pattern"] {
        assert_eq!(schemas["Id"][key], parsed[key], "{schemas}");
    }
    assert_eq!(schemas["Id"]["examples"], json!([parsed["example"]]));
}
