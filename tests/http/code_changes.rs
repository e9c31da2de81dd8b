//! One table of changes of a code through every front end: HTTP, the command line, and, where it
//! has the keys, the configuration file.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use raindrop::{
    core::{clock::SystemClock, id::Id, segment::SegmentSpec},
    server::Service,
    store,
};
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, sync::oneshot};

use crate::support::{Answer, PATIENCE, config_of, try_config_of};

type Given = &'static [(&'static str, &'static str)];

const SAFE: u64 = Id::MAX_JS_SAFE.get();
const LARGEST: u64 = SegmentSpec::LARGEST_NUMBER;

/// The settings that a code is created with, the change, and the resulting settings or the error.
#[rustfmt::skip]
const CHANGES: &[(Given, Option<Given>, Result<SegmentSpec, &str>)] = &[
    (&[], None, Ok(with_max(LARGEST))),
    (&[("start", "7"), ("min_step", "20"), ("max_step", "30"), ("increment", "4"), ("remainder", "3")], None,
     Ok(SegmentSpec { start: 7, min_step: 20, max_step: 30, increment: 4, remainder: 3, ..with_max(LARGEST) })),
    (&[("js_safe", "true")], None, Ok(with_max(SAFE))),
    (&[("text", "INV/{n:06}")], None, Ok(with_max(LARGEST))),
    (&[("text", "INV {n}")], None, Err("INV {n}")),
    (&[("text", "INV-{n:02}")], Some(&[("text", "INV-{n:01}")]), Err("INV-{n:01}")),
    (&[("text", "INV-{n:03}")], Some(&[("text", "INV-{n:02}")]), Err("its numbers stay INV-{n:03}")),
    (&[("text", "INV-{n:03}")], Some(&[("text", "INV-{n:04}")]), Ok(with_max(LARGEST))),
    (&[], Some(&[("text", "INV-{n}")]), Err("its numbers stay plain")),
    (&[("strict", "true"), ("failover_gap", "0"), ("text", "{n}")], None, Ok(with_max(LARGEST))),
    (&[("strict", "true"), ("failover_gap", "0")], Some(&[("max", "500")]), Ok(with_max(500))),
    (&[("strict", "true"), ("failover_gap", "0"), ("min_step", "20")], None, Err("must be left out with strict")),
    (&[("strict", "true"), ("failover_gap", "0")], Some(&[("max_step", "50")]), Err("must be left out with strict")),
    (&[("strict", "true"), ("failover_gap", "0")], Some(&[("strict", "false")]), Err("strict stays true")),
    (&[], Some(&[("strict", "true"), ("failover_gap", "0")]), Err("strict stays false")),
    (&[("js_safe", "false")], None, Ok(with_max(LARGEST))),
    (&[("min_step", "0")], None, Err("min_step = 0")),
    (&[("increment", "2"), ("remainder", "2")], None, Err("must be below 2 (increment)")),
    (&[("start", "9007199254740992"), ("js_safe", "true")], None, Err("start = 9007199254740992")),
    (&[("max", "999"), ("js_safe", "true")], None, Ok(with_max(999))),
    (&[("max", "9007199254740991"), ("js_safe", "false")], None, Ok(with_max(SAFE))),
    (&[("max", "9007199254740992"), ("js_safe", "true")], None, Err("must be at most 9007199254740991 with js_safe")),
    (&[("max", "999")], Some(&[("js_safe", "true")]), Ok(with_max(999))),
    (&[("max", "999")], Some(&[("js_safe", "false")]), Ok(with_max(999))),
    (&[("js_safe", "true")], Some(&[("js_safe", "false")]), Ok(with_max(LARGEST))),
    (&[("js_safe", "true")], Some(&[("max", "999")]), Ok(with_max(999))),
    (&[], Some(&[("js_safe", "true")]), Ok(with_max(SAFE))),
    (&[], Some(&[("max", "9007199254740992"), ("js_safe", "true")]), Err("must be at most 9007199254740991 with js_safe")),
    (&[("start", "100")], Some(&[("start", "50")]), Ok(SegmentSpec { start: 50, ..with_max(LARGEST) })),
    (&[("start", "100")], Some(&[("max", "98")]), Err("start = 100: must be 0 to 98")),
    (&[("start", "100")], Some(&[("start", "1"), ("max", "98")]), Err("max = 98: must be at least 99")),
    (&[("failover_gap", "0")], None, Ok(SegmentSpec { failover_gap: Some(0), ..with_max(LARGEST) })),
    (&[("failover_gap", "500"), ("max", "9")], None, Err("failover_gap = 500: must be below 9")),
    (&[("failover_gap", "9223372036854775807")], None, Err("failover_gap = 9223372036854775807")),
    (&[("failover_gap", "9007199254740992"), ("js_safe", "true")], None, Err("failover_gap = 9007199254740992")),
    (&[("failover_gap", "-1")], None, Err("-1")),
    (&[("failover_gap", "500")], Some(&[("max", "400")]), Err("failover_gap = 500: must be below 400")),
    (&[("failover_gap", "500")], Some(&[("failover_gap", "20")]), Ok(SegmentSpec { failover_gap: Some(20), ..with_max(LARGEST) })),
    (&[], Some(&[("increment", "2")]), Err("increment and remainder stay 1 and 0")),
];

/// The defaults of the namespace with another largest number.
const fn with_max(max: u64) -> SegmentSpec {
    SegmentSpec {
        start: 1,
        min_step: 10,
        max_step: 40,
        increment: 1,
        remainder: 0,
        max,
        text: None,
        failover_gap: None,
        strict: false,
    }
}

// The commands run while the service does.
#[tokio::test(flavor = "multi_thread")]
async fn http_command_and_library_apply_a_change_alike() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = format!(
        "mode = 'segment'\nsegment = {{ min_step = 10, max_step = 40 }}\n\
         store.url = 'sqlite://{}/raindrop.db'\n",
        folder.path().display()
    );
    let file = folder.path().join("raindrop.toml");
    let bound = "[namespaces.web]\n[[code]]\nname = 'bound'\nnamespace = 'web'\n";
    std::fs::write(&file, format!("{text}{bound}")).expect("written");
    let admin = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let admin_url = format!("http://{}", admin.local_addr().expect("an address"));
    let clock = Arc::new(SystemClock::default());
    let config = config_of(&format!(
        "{text}http.admin_listen = '127.0.0.1:0'\nhttp.admin_changes = true\n{bound}"
    ));
    let service = Service {
        listener: TcpListener::bind("127.0.0.1:0").await.expect("a free port"),
        admin_listener: Some(admin),
        store: store::connect(&config.store, clock.clone()).expect("an address of a store"),
        config,
        clock,
        manager: None,
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(service.run(async move { stopped.await.expect("a stop") }));
    // The service has made its tables then.
    let ready = async {
        while reqwest::get(format!("{admin_url}/readyz")).await.expect("an answer").status() != 200
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ready).await.expect("ready in time");

    for (index, (created, changed, expected)) in CHANGES.iter().enumerate() {
        let over_http =
            over_http(&format!("{admin_url}/codes/http-{index}"), created, *changed).await;
        let by_command = by_command(&file, &format!("command-{index}"), created, *changed);
        for (front_end, outcome) in [("HTTP", over_http), ("command", by_command)] {
            assert_alike(front_end, index, outcome, expected);
        }
        if changed.is_none() && created.iter().all(|(key, _)| *key != "max") {
            assert_alike("file", index, in_file(&text, created), expected);
        }
    }
    // No request could reach this code.
    for refused in [
        over_http(&format!("{admin_url}/codes/bound?namespace=default"), &[], None).await,
        by_command(&file, "bound", &[], None),
    ] {
        let text = refused.expect_err("a code of another namespace");
        assert!(text.contains("belongs to namespace \"web\""), "{text}");
    }
    stop.send(()).expect("running");
    running.await.expect("no panic").expect("a clean stop");
}

fn assert_alike(
    front_end: &str,
    index: usize,
    outcome: Result<String, String>,
    expected: &Result<SegmentSpec, &str>,
) {
    let (created, changed, _) = CHANGES[index];
    let row = format!("{front_end}: {created:?}, then {changed:?}");
    match (outcome, expected) {
        (Ok(settings), Ok(spec)) => {
            let given = changed.into_iter().flatten().chain(created);
            let text = given.copied().find_map(|(key, text)| (key == "text").then_some(text));
            let text = text.map(|it| it.parse().expect("a form"));
            let strict = created.contains(&("strict", "true"));
            let failover_gap = if strict { Some(0) } else { spec.failover_gap };
            let spec = SegmentSpec { text, strict, failover_gap, ..*spec };
            assert_eq!(settings, spec.to_string(), "{row}");
        }
        (Err(text), Err(said)) => assert!(text.contains(said), "{row}: {text}"),
        (outcome, expected) => panic!("{row}: {outcome:?} instead of {expected:?}"),
    }
}

/// The settings of the code in the end, or the detail of the problem.
async fn over_http(url: &str, created: Given, changed: Option<Given>) -> Result<String, String> {
    let mut settings = Value::Null;
    for (method, given) in [("PUT", Some(created)), ("PATCH", changed)] {
        let Some(given) = given else { continue };
        let json = |text: &str| match text.parse::<bool>() {
            Ok(bool) => json!(bool),
            Err(_) => json!(text),
        };
        let body: Map<_, _> =
            given.iter().map(|(key, text)| ((*key).to_owned(), json(text))).collect();
        let request = reqwest::Client::new().request(method.parse().expect("a method"), url);
        let answer = request.json(&body).send().await.expect("an answer");
        let (status, headers) = (answer.status(), answer.headers().clone());
        let answer = Answer { status, headers, body: answer.text().await.expect("a body") };
        settings = answer.json();
        if !status.is_success() {
            return Err(settings["detail"].as_str().expect("a detail").to_owned());
        }
    }
    let setting = |key: &str| format!("{key}={}", settings[key].to_string().replace('"', ""));
    let keys = ["start", "min_step", "max_step", "increment", "remainder", "max"];
    let absent = ["text", "failover_gap"].into_iter().filter(|key| settings.get(key).is_some());
    let strict = (settings["strict"] == true).then(|| "strict".to_owned());
    let settings: Vec<_> = keys.into_iter().chain(absent).map(setting).chain(strict).collect();
    Ok(settings.join(" "))
}

/// Returns the settings that the command prints in the end, or its error.
fn by_command(
    file: &Path,
    code: &str,
    created: Given,
    changed: Option<Given>,
) -> Result<String, String> {
    let mut printed = String::new();
    for (command, given) in [("create", Some(created)), ("set", changed)] {
        let Some(given) = given else { continue };
        let option = |(key, value): &(&str, &str)| format!("--{}={value}", key.replace('_', "-"));
        let output = Command::new(env!("CARGO_BIN_EXE_raindrop"))
            .arg("--config")
            .arg(file)
            .args(["codes", command, code])
            .args(given.iter().map(option))
            .output()
            .expect("run");
        if !output.status.success() {
            return Err(String::from_utf8(output.stderr).expect("UTF-8"));
        }
        printed = String::from_utf8(output.stdout).expect("UTF-8");
    }
    let settings = printed.trim_end().split_once(", ").expect("the next number, and settings").1;
    Ok(settings.to_owned())
}

/// The settings of the code as an entry of the configuration, or the problems.
fn in_file(text: &str, given: Given) -> Result<String, String> {
    let line = |(key, value): &(&str, &str)| match *key {
        "text" => format!("{key} = '{value}'\n"),
        _ => format!("{key} = {value}\n"),
    };
    let lines = given.iter().map(line);
    let entry = format!("{text}[[code]]\nname = 'one'\n{}", lines.collect::<String>());
    let config = try_config_of(&entry).map_err(|error| error.to_string())?;
    let settings = config.segments().next().expect("a segment namespace");
    Ok(settings.codes["one"].to_string())
}
