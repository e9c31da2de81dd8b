//! Tests `raindrop workers` and `raindrop codes` through the admin routes of a service, by operators
//! who have no access to its store.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    service::{PATIENCE, Service, Setup, run},
    support::{free_port, poll, tls::Authority},
};

/// A service, and the folder of an operator with two tokens.
struct Place {
    node: Service,
    admin: String,
    operator: tempfile::TempDir,
}

impl Place {
    async fn start(scheme: &str, more: impl FnOnce(Setup) -> Setup) -> Self {
        let operator = tempfile::tempdir().expect("a temporary folder");
        let made = |arguments: &[&str]| {
            let (code, entry, token) = run(arguments, &[], operator.path());
            assert_eq!(code, Some(0), "{token}");
            fs::write(operator.path().join(arguments[1]), token).expect("written");
            entry
        };
        let entries =
            made(&["token", "boss", "--permissions", "admin"]) + &made(&["token", "shop"]);
        let tokens = operator.path().join("tokens.toml");
        fs::write(&tokens, entries).expect("written");
        let admin = format!("127.0.0.1:{}", free_port());
        let setup = Setup::new().set("http.admin_listen", &admin);
        let setup = setup.set("auth.tokens_file", tokens.display());
        let node = more(setup.set("namespaces.numbers.mode", "segment")).spawn();
        Self { node, admin: format!("{scheme}://{admin}"), operator }
    }

    async fn ready(scheme: &str, more: impl FnOnce(Setup) -> Setup) -> Self {
        let place = Self::start(scheme, more).await;
        poll::until(PATIENCE, "the service is ready", async || {
            let (code, ..) = place.run(&["health", "--ready", "--url", &place.admin]);
            (code == Some(0)).then_some(())
        })
        .await;
        place
    }

    /// Runs a command in the folder of the operator.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        run(arguments, &[], self.operator.path())
    }

    /// Runs a command through the service, with a token.
    fn remote(&self, words: &str, token: &str) -> (Option<i32>, String, String) {
        let flags = ["--server", &self.admin, "--token-file", token];
        self.run(&words.split(' ').chain(flags).collect::<Vec<_>>())
    }

    /// Returns the worker id that the service holds.
    fn worker(&self) -> u64 {
        let listed = self.json("workers --held");
        let held = listed["namespaces"]["default"]["workers"].as_array().expect("workers");
        assert_eq!(held.len(), 1, "{listed}");
        held[0]["worker_id"].as_u64().expect("a number")
    }

    fn json(&self, words: &str) -> Value {
        let (code, out, err) = self.remote(&format!("{words} --json"), "boss");
        assert_eq!(code, Some(0), "{words}: {out}{err}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    async fn stop(self) {
        self.node.stop().await;
        let used = self.operator.path().join("raindrop.db");
        assert!(!used.exists(), "an operator has no store");
    }
}

/// Runs a command where the store is.
fn local(arguments: &[&str], folder: &Path) -> String {
    let settings = [("RAINDROP__NAMESPACES__NUMBERS__MODE", "segment")];
    let (code, out, err) = run(arguments, &settings, folder);
    assert_eq!(code, Some(0), "{err}");
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_a_service_are_those_of_its_store() {
    let place = Place::ready("http", |setup| setup).await;
    let folder = place.node.folder();
    for words in ["workers", "workers --held", "workers --free", "workers --all", "workers --json"]
    {
        // A renewal in between changes both.
        poll::until(PATIENCE, "both lists are equal", async || {
            let arguments: Vec<&str> = words.split(' ').collect();
            let without_now = |text: String| {
                let lines = text.lines().filter(|line| !line.contains("\"now\""));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            let here = without_now(local(&arguments, folder));
            // Reading needs no token on the admin listener.
            let flags = ["--server", place.admin.as_str()];
            let (code, there, err) = place.run(&[&arguments[..], &flags].concat());
            assert_eq!((code, err.as_str()), (Some(0), ""));
            (here == without_now(there)).then_some(())
        })
        .await;
    }
    assert!(place.worker() > 0);
    let (code, _, err) = place.remote("workers --namespace nobody", "boss");
    assert!(code == Some(2) && err.contains("\"nobody\" does not exist"), "{code:?} {err}");

    assert_eq!(place.json("codes create order --start 100")["done"], true);
    let here = local(&["codes"], folder);
    let (_, there, _) = place.remote("codes", "boss");
    assert!(there.contains("numbers    order  managed  100"), "{there}");
    assert_eq!(here.lines().count(), there.lines().count());
    let here: Value = serde_json::from_str(&local(&["codes", "--json"], folder)).expect("JSON");
    let mut there = place.json("codes");
    let code = there["codes"][0].as_object_mut().expect("a code");
    assert_eq!(code.remove("in_hand"), Some(0.into()), "only a node knows it");
    assert_eq!(here, there);
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_need_a_token_with_the_permission() {
    let place = Place::ready("http", |setup| setup).await;
    let worker = place.worker();
    let release = format!("workers release {worker}");
    let (code, out, err) = place.remote(&release, "boss");
    assert!(code == Some(2) && out.is_empty() && err.contains("--yes"), "{code:?} {out}{err}");
    for words in [format!("{release} --yes"), "codes create order".to_owned()] {
        let (code, _, err) = place.remote(&words, "shop");
        assert!(code == Some(2) && err.contains("403"), "{words}: {code:?} {err}");
        let flags = ["--server", place.admin.as_str()];
        let (code, _, err) = place.run(&words.split(' ').chain(flags).collect::<Vec<_>>());
        assert!(code == Some(2) && err.contains("401"), "{words}: {code:?} {err}");
    }
    // None is released if one of them has no row.
    let (code, out, err) = place.remote(&format!("{release} 60000 --yes"), "boss");
    assert!(code.is_some_and(|code| code > 0) && out.is_empty(), "{code:?} {out}");
    assert!(err.contains("worker 60000 has no row"), "{err}");
    assert_eq!(place.worker(), worker);
    let tried = place.json(&format!("{release} --dry-run"));
    let row = &tried["workers"][0];
    assert_eq!((&tried["done"], &row["released"]), (&false.into(), &false.into()), "{tried}");
    assert!(row["holder"].is_string() && row["expires"].is_string(), "{tried}");
    let released = place.json(&format!("{release} --yes"));
    let row = &released["workers"][0];
    assert_eq!((&released["done"], &row["released"]), (&true.into(), &true.into()), "{released}");

    let code = |document: &Value| document["codes"][0].clone();
    assert_eq!(code(&place.json("codes create order --start 100"))["next"], "100");
    let (exit, _, err) = place.remote("codes create order", "boss");
    assert!(exit == Some(2) && err.contains("412"), "{exit:?} {err}");
    assert_eq!(code(&place.json("codes set order --max 5000"))["max"], "5000");
    let tried = place.json("codes set order --start 4000 --max 4500 --dry-run");
    let of = |key: &str| (tried["codes"][0][key].clone(), tried["would_be"][key].clone());
    assert_eq!(of("max"), ("5000".into(), "4500".into()), "{tried}");
    assert_eq!(of("next"), ("100".into(), "4000".into()), "{tried}");
    assert_eq!(of("left"), ("4901".into(), "501".into()), "{tried}");
    let mut local: Value = serde_json::from_str(&local(
        &["codes", "set", "order", "--start", "4000", "--max", "4500", "--dry-run", "--json"],
        place.node.folder(),
    ))
    .expect("JSON");
    local["codes"][0]["in_hand"] = json!(0);
    local["would_be"]["in_hand"] = json!(0);
    assert_eq!(local, tried);
    let (exit, _, err) = place.remote("codes set order --increment 2 --dry-run", "boss");
    assert!(exit == Some(2) && err.contains("409"), "{exit:?} {err}");
    assert_eq!(place.json("codes")["codes"][0]["max"], "5000", "nothing was changed");
    let (exit, _, err) = place.remote("codes set order --start 200", "boss");
    assert!(exit == Some(2) && err.contains("--yes"), "{exit:?} {err}");
    assert_eq!(code(&place.json("codes raise --by 10 --dry-run"))["next"], "100");
    assert_eq!(code(&place.json("codes raise --by 10 --yes"))["next"], "110");
    assert_eq!(place.json("codes retire order --dry-run")["done"], false);
    assert_eq!(code(&place.json("codes retire order --yes"))["kind"], "retired");
    place.json("codes create refund --start 1");
    let raised = place.json("codes raise --by 10 --yes");
    assert_eq!(raised["codes"].as_array().expect("codes").len(), 1, "{raised}");
    assert_eq!((&raised["done"], &code(&raised)["next"]), (&true.into(), &"11".into()), "{raised}");
    for (words, command) in [
        ("workers raise --yes", "workers raise"),
        ("workers relayout --yes", "workers relayout"),
        ("codes import leaf --yes", "codes import"),
    ] {
        let (exit, _, err) = place.remote(words, "boss");
        let said = format!("{command}: needs the store itself");
        assert!(exit == Some(2) && err.contains(&said), "{words}: {exit:?} {err}");
    }
    place.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_is_sent_only_to_a_service_whose_certificate_is_verified() {
    let [authority, other] = [(); 2].map(|()| Authority::new());
    let address = "subjectAltName = IP:127.0.0.1\n";
    authority.issue(address, ["20200101000000Z", "20991231000000Z"]);
    let place = Place::ready("https", |setup| {
        let setup = setup.set("http.tls.cert_file", authority.file("server.pem").display());
        setup.set("http.tls.key_file", authority.file("server.key").display())
    })
    .await;
    let list = |ca: Option<&Authority>| {
        let ca = ca.map(|ca| ca.file("ca.pem").display().to_string());
        let ca = ca.iter().flat_map(|ca| ["--ca-file", ca.as_str()]);
        let flags = ["workers", "--json", "--server", &place.admin, "--token-file", "boss"];
        place.run(&flags.into_iter().chain(ca).collect::<Vec<_>>())
    };
    let (code, out, err) = list(Some(&authority));
    assert_eq!(code, Some(0), "{err}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(document["namespaces"]["default"]["held"], json!(1), "{document}");
    let (code, out, err) = list(Some(&other));
    assert!(
        code == Some(1) && out.is_empty() && err.contains("invalid peer certificate"),
        "{code:?} {err}"
    );
    let (code, _, err) = list(None);
    assert!(code == Some(2) && err.contains("--ca-file: must be given"), "{code:?} {err}");
    place.stop().await;
}
