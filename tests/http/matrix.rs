//! Who may do what: every caller, route, method and listener. Routes and methods are those of the
//! API document that a listener serves, so a new route is checked before anybody thinks of it.

use std::net::SocketAddr;

use reqwest::{Client, Method};
use serde_json::Value;

use crate::{serving::Served, support::token_entry};

/// What a path's permission is, by its first part. A new one has to be added here.
fn permission(path: &str) -> Option<&'static str> {
    match path.split('/').nth(1).expect("a path") {
        "id" | "ids" | "parse" | "bounds" | "plan" => Some("ids"),
        "cluster" | "codes" => Some("admin"),
        "metrics" => Some("metrics"),
        "health" | "openapi.json" | "nowhere" => Some("any"),
        "livez" | "readyz" | "" | "docs" | "console" => None,
        other => panic!("who may use /{other}?"),
    }
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const CALLERS: [&str; 6] = ["", "unknown", "none", "ids", "metrics", "admin"];

/// The status that a caller must be refused with, or none.
fn refusal(path: &str, has_method: bool, caller: &str, needs_token: bool) -> Option<u16> {
    if needs_token && let Some(needed) = permission(path) {
        if ["", "unknown"].contains(&caller) {
            return Some(401);
        }
        if needed != "any" && needed != caller {
            return Some(403);
        }
    }
    (!has_method).then_some(405)
}

struct Listening {
    client: Client,
    address: SocketAddr,
    needs_token: bool,
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
            routes.push((path.clone(), methods.map(|method| method.to_uppercase()).collect()));
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
                    let expected = refusal(template, has_method, caller, self.needs_token);
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
            let expected = refusal("/nowhere", true, caller, self.needs_token).unwrap_or(404);
            assert_eq!(self.status("POST", "/nowhere", caller).await, expected, "{caller:?}");
        }
        routes.into_iter().map(|(path, _)| path).collect()
    }
}

#[tokio::test]
async fn every_caller_route_method_and_listener() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tokens.toml");
    let entry = |(name, permissions): (&str, &str)| {
        token_entry(name, name) + &format!("permissions = [{permissions}]\n")
    };
    let entries =
        [("none", ""), ("ids", "'ids'"), ("metrics", "'metrics'"), ("admin", "'admin'")].map(entry);
    std::fs::write(&file, entries.concat()).expect("written");
    let file = file.to_str().expect("UTF-8");

    // One listener with tokens; two with tokens; two without.
    for (settings, is_shared) in [
        (vec![("auth.tokens_file", file)], true),
        (vec![("auth.tokens_file", file), ("http.admin_listen", "127.0.0.1:0")], false),
        (vec![("http.admin_listen", "127.0.0.1:0")], false),
    ] {
        let needs_token = settings[0].0 == "auth.tokens_file";
        let served = Served::start(&settings).await;
        let public = Listening { client: Client::new(), address: served.address, needs_token };
        let paths = public.check().await;
        assert_eq!(paths.iter().any(|path| path == "/metrics"), is_shared);
        assert_eq!(paths.iter().any(|path| path == "/cluster"), needs_token);
        assert!(paths.iter().any(|path| path == "/id/{code}"));
        if let Some(address) = served.admin {
            let operators = Listening { client: Client::new(), address, needs_token: false };
            let paths = operators.check().await;
            assert!(paths.iter().any(|path| path == "/cluster/release"));
            assert!(!paths.iter().any(|path| path == "/id/{code}"));
        }
        served.stop().await;
    }
}
