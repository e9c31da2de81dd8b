//! The API document: the served one, the copy in the repository, and docs/http.md agree.

use std::{collections::BTreeSet, fs, sync::LazyLock};

use raindrop::server::ProblemCode;
use serde_json::Value;

use crate::{
    support::{Answer, World, token_entry},
    tokens::with_tokens,
};

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let text = fs::read_to_string(KEPT).expect("docs/openapi.json");
    serde_json::from_str(&text).expect("JSON")
});

/// Asserts that the document knows of such an answer; every answer in these tests comes by here.
pub(crate) fn assert_documented(method: &str, uri: &str, answer: &Answer) {
    let told = || format!("{method} {uri}: {answer:?}");
    let status = answer.status.as_str();
    let path = uri.split('?').next().unwrap_or_default();
    if path == "/" || path == "/docs" || path.starts_with("/console/") {
        // Pages for people, of which the document tells in words.
        assert!(["200", "404", "405", "413", "414"].contains(&status), "{}", told());
        return;
    }
    let paths = DOCUMENT["paths"].as_object().expect("paths");
    let Some((_, item)) = paths.iter().find(|(template, _)| fits(path, template)) else {
        assert!(["401", "404", "414"].contains(&status), "{}", told());
        return;
    };
    // Operators' routes are not served everywhere.
    if status == "404" && answer.json()["code"] == "not_found" {
        return;
    }
    // HEAD is not described: it is GET without its body.
    let described = if method == "HEAD" { "get" } else { &method.to_lowercase() };
    let Some(operation) = item.get(described) else {
        let is_preflight = method == "OPTIONS" && status == "200";
        assert!(["401", "403", "405", "414"].contains(&status) || is_preflight, "{}", told());
        return;
    };
    let response = &operation["responses"][status];
    assert!(response.is_object(), "the status is not documented: {}", told());
    for header in response["headers"].as_object().into_iter().flatten().map(|(name, _)| name) {
        // A page of another site is not told how to do better.
        if status == "403" && header == "WWW-Authenticate" {
            continue;
        }
        assert!(answer.header(header).is_some(), "{header} is missing: {}", told());
    }
    let media_type = answer.header("content-type").map(|whole| whole.split(';').next());
    if method == "HEAD" {
        return;
    }
    let Some(content) = response["content"].as_object() else { return };
    let media_type = media_type.flatten().expect("a content type");
    assert!(content.contains_key(media_type), "{}", told());
    if media_type == "application/problem+json" {
        let code = &answer.json()["code"];
        assert!(codes(response).any(|known| known == code), "{}", told());
    }
}

fn fits(path: &str, template: &str) -> bool {
    let (path, template): (Vec<_>, Vec<_>) =
        (path.split('/').collect(), template.split('/').collect());
    let mut pairs = path.iter().zip(&template);
    path.len() == template.len()
        && pairs.all(|(part, of)| part == of || of.starts_with('{') && !part.is_empty())
}

/// The problems that a response tells apart.
fn codes(response: &Value) -> impl Iterator<Item = &Value> {
    response["x-codes"].as_array().into_iter().flatten()
}

/// `UPDATE=1 cargo test --test http the_document_is_kept` rewrites it.
#[tokio::test]
async fn the_document_is_kept_as_the_default_configuration_with_tokens_serves_it() {
    let (world, _folder) = with_tokens(&token_entry("shop", "secret"), "").await;
    let token = [("authorization", "Bearer secret")];
    let answer = world.call("GET", "/openapi.json", &token).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    if std::env::var_os("UPDATE").is_some() {
        fs::write(KEPT, &answer.body).expect("written");
    }
    let kept = fs::read_to_string(KEPT).expect("docs/openapi.json");
    for (index, (kept, served)) in kept.lines().zip(answer.body.lines()).enumerate() {
        assert_eq!(kept, served, "docs/openapi.json:{}; UPDATE=1 rewrites it", index + 1);
    }
    assert_eq!(kept, answer.body);
}

#[tokio::test]
async fn the_document_describes_the_configured_routes() {
    let world = World::start(&[("http.max_batch", "77")]).await;
    let document = world.get("/openapi.json").await.json();
    let parameters = document["paths"]["/ids/{code}"]["get"]["parameters"].as_array();
    let n = parameters.expect("some").iter().find(|parameter| parameter["name"] == "n");
    assert_eq!(n.expect("n")["schema"]["maximum"], 77);
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(document["paths"]["/metrics"].is_object());
    assert!(document["paths"]["/codes"].is_null(), "nobody is known as an operator");

    let world = World::start(&[("http.admin_listen", "127.0.0.1:9090")]).await;
    let document = world.get("/openapi.json").await.json();
    assert!(document["paths"]["/health"].is_object());
    assert!(document["paths"]["/metrics"].is_null());
}

/// Every reference leads to something, so that what reads the document finds all of it.
#[test]
fn the_document_is_complete() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    references(&DOCUMENT, &mut found);
    assert!(found.len() > 5, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("within the document");
        assert!(DOCUMENT.pointer(pointer).is_some(), "{reference}");
    }
}

/// `code` and status of the table of errors in docs/http.md.
fn described_errors() -> BTreeSet<(String, String)> {
    let text = include_str!("../../docs/http.md");
    let (_, errors) = text.split_once("\n## Errors\n").expect("a section");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = errors.lines().filter(|line| line.starts_with("| `")).map(cells);
    rows.map(|row| (row[1].trim_matches('`').to_owned(), row[2].clone())).collect()
}

#[test]
fn every_problem_is_in_the_table_of_errors_and_in_the_document() {
    let described = described_errors();
    let known: BTreeSet<_> = ProblemCode::ALL
        .iter()
        .map(|code| (code.name().to_owned(), code.status().as_str().to_owned()))
        .collect();
    assert_eq!(known.len(), ProblemCode::ALL.len());
    assert_eq!(known, described);

    let operations = DOCUMENT["paths"].as_object().expect("paths").values();
    let operations = operations.flat_map(|item| item.as_object().expect("operations").values());
    let responses = operations.flat_map(|operation| operation["responses"].as_object());
    let shared = DOCUMENT["components"]["responses"].as_object().expect("some");
    let shared = [("404", &shared["NotFound"]), ("405", &shared["MethodNotAllowed"])];
    let responses = responses.flatten().map(|(status, response)| (status.as_str(), response));
    let documented: BTreeSet<_> = responses
        .chain(shared)
        .flat_map(|(status, response)| codes(response).map(move |code| (code, status)))
        .map(|(code, status)| (code.as_str().expect("a text").to_owned(), status.to_owned()))
        .collect();
    assert_eq!(documented, described);
}

#[test]
fn every_path_and_parameter_is_described_in_words() {
    let text = include_str!("../../docs/http.md");
    for (path, item) in DOCUMENT["paths"].as_object().expect("paths") {
        assert!(text.contains(&format!("`{path}`")), "docs/http.md: {path}");
        let operations = item.as_object().expect("operations").values();
        for parameter in operations.flat_map(|of| of["parameters"].as_array()).flatten() {
            let name = parameter["name"].as_str().expect("a name");
            let is_named =
                text.contains(&format!("`{name}`")) || path.contains(&format!("{{{name}}}"));
            assert!(is_named, "docs/http.md: {name}");
        }
    }
}
