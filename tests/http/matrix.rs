//! Access: every caller with every route and method on every listener. Routes and methods come from
//! the API document that the listener serves, so every new route is checked. The first part of its
//! path must be in `permission` below.

use std::net::SocketAddr;

use reqwest::{Client, Method};
use serde_json::Value;

use crate::{serving::Served, support::token_entry};

/// Returns the permission that a path needs, by its first part. A new permission must be added
/// here.
fn permission(path: &str) -> Option<&'static str> {
    match path.split('/').nth(1).expect("a path") {
        "id" | "ids" | "parse" | "bounds" | "plan" => Some("ids"),
        "cluster" | "codes" | "log" => Some("admin"),
        "metrics" => Some("metrics"),
        "health" | "openapi.json" | "version" | "nowhere" => Some("any"),
        "livez" | "readyz" | "" | "docs" | "console" => None,
        other => panic!("who may use /{other}?"),
    }
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const CALLERS: [&str; 6] = ["", "unknown", "none", "ids", "metrics", "admin"];

/// What callers of a listener need.
#[derive(Clone, Copy)]
enum Wants {
    /// Every request needs a token.
    Tokens,
    /// Requests that change things need a token.
    TokensForChanges,
    /// Requests that change things are refused.
    NoChanges,
    Nothing,
}

/// The status that a caller must be refused with, or none.
fn refusal(path: &str, method: &str, caller: &str, wants: Wants) -> Option<u16> {
    let needed = permission(path)?;
    let is_change = needed == "admin" && !["GET", "HEAD"].contains(&method);
    match wants {
        Wants::NoChanges if is_change => return Some(403),
        Wants::TokensForChanges if !is_change => return None,
        Wants::NoChanges | Wants::Nothing => return None,
        Wants::Tokens | Wants::TokensForChanges => {}
    }
    if ["", "unknown"].contains(&caller) {
        return Some(401);
    }
    (needed != "any" && needed != caller).then_some(403)
}

struct Listening {
    client: Client,
    address: SocketAddr,
    wants: Wants,
}

impl Listening {
    async fn status(&self, method: &str, path: &str, caller: &str) -> u16 {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = self.client.request(method, format!("http://{}{path}", self.address));
        if !caller.is_empty() {
            request = request.bearer_auth(caller);
        }
        request.send().await.expect("an answer").status().as_u16()
    }

    /// Tries everything, and returns the paths.
    async fn check(&self) -> Vec<String> {
        let url = format!("http://{}/openapi.json", self.address);
        let answer = self.client.get(url).bearer_auth("admin").send().await.expect("an answer");
        let document: Value = answer.json().await.expect("JSON");
        let mut routes: Vec<(String, Vec<String>)> = Vec::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            let methods = item.as_object().expect("operations").keys();
            // HEAD is not described.
            let head = methods.clone().any(|method| method == "get").then(|| "HEAD".to_owned());
            let methods = methods.map(|method| method.to_uppercase()).chain(head);
            routes.push((path.clone(), methods.collect()));
        }
        for page in ["/", "/docs", "/console/app.js"] {
            routes.push((page.to_owned(), vec!["GET".into(), "HEAD".into()]));
        }
        for (template, methods) in &routes {
            let path = template.replace("{code}", "order").replace("{id}", "1");
            for method in METHODS {
                let has_method = methods.iter().any(|known| known == method);
                for caller in CALLERS {
                    let status = self.status(method, &path, caller).await;
                    let refused = refusal(template, method, caller, self.wants);
                    let expected = refused.or((!has_method).then_some(405));
                    let told = format!("{method} {path} by {caller:?} at {}", self.address);
                    match expected {
                        Some(expected) => assert_eq!(status, expected, "{told}"),
                        // Let in, whatever becomes of it then.
                        None => assert!(![401, 403, 405].contains(&status), "{told}: {status}"),
                    }
                }
            }
        }
        for caller in CALLERS {
            let expected = refusal("/nowhere", "POST", caller, self.wants).unwrap_or(404);
            assert_eq!(self.status("POST", "/nowhere", caller).await, expected, "{caller:?}");
        }
        routes.into_iter().map(|(path, _)| path).collect()
    }
}

#[tokio::test]
async fn every_caller_route_method_and_listener_has_its_documented_answer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tokens.toml");
    let entry = |(name, permissions): (&str, &str)| {
        token_entry(name, name) + &format!("permissions = [{permissions}]\n")
    };
    let entries =
        [("none", ""), ("ids", "'ids'"), ("metrics", "'metrics'"), ("admin", "'admin'")].map(entry);
    std::fs::write(&file, entries.concat()).expect("written");
    let file = file.to_str().expect("UTF-8");

    // One listener with tokens; two with tokens; two without, which take changes or not.
    let (tokens, two) = (("auth.tokens_file", file), ("http.admin_listen", "127.0.0.1:0"));
    let changes = ("http.admin_changes", "true");
    for (settings, public, operators) in [
        (vec![tokens], Wants::Tokens, None),
        (vec![tokens, two], Wants::Tokens, Some(Wants::TokensForChanges)),
        (vec![two], Wants::Nothing, Some(Wants::NoChanges)),
        (vec![two, changes], Wants::Nothing, Some(Wants::Nothing)),
    ] {
        let served = Served::start(&settings).await;
        let listening = |address, wants| Listening { client: Client::new(), address, wants };
        let paths = listening(served.address, public).check().await;
        assert_eq!(paths.iter().any(|path| path == "/metrics"), operators.is_none());
        let has_tokens = settings.contains(&tokens);
        assert_eq!(paths.iter().any(|path| path == "/cluster"), has_tokens);
        assert!(paths.iter().any(|path| path == "/id/{code}"));
        if let Some((address, wants)) = served.admin.zip(operators) {
            let paths = listening(address, wants).check().await;
            assert!(paths.iter().any(|path| path == "/cluster/release"));
            assert!(!paths.iter().any(|path| path == "/id/{code}"));
        }
        served.stop().await;
    }
}
