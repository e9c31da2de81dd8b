use std::{fs, time::Duration};

use super::*;
use crate::{core::issue::RollbackPolicy, store::StoreUrl};

mod clients;
mod corpus;
mod forms;
mod layouts;
mod listen;
mod namespaces;
mod properties;
mod schema;
mod segments;
mod settings_page;
mod tokens_file;

fn environment(pairs: &[(&str, &str)]) -> Inputs {
    let pairs = pairs.iter().map(|(key, value)| (keys::variable(key), (*value).to_owned()));
    Inputs { environment: pairs.collect(), ..Inputs::default() }
}

fn problems(inputs: &Inputs) -> Vec<String> {
    let error = Config::load(inputs).expect_err("problems");
    error.0.iter().map(ToString::to_string).collect()
}

fn keeper(config: &Config) -> &KeeperSettings {
    keeper_of(config, "default").expect("it always exists")
}

fn keeper_of<'a>(config: &'a Config, name: &str) -> Option<&'a KeeperSettings> {
    config.keepers().find(|keeper| keeper.namespace == name)
}

fn value_of(config: &Config, key: &str) -> (String, String) {
    let setting = config.effective.iter().find(|setting| setting.key == key).expect("a key");
    (setting.value.clone(), setting.source.to_string())
}

fn file(text: &str) -> (tempfile::TempDir, Inputs) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raindrop.toml");
    fs::write(&path, text).expect("written");
    (folder, Inputs { file: Some(path), ..Inputs::default() })
}

#[test]
fn an_empty_configuration_has_the_published_defaults() {
    let config = Config::load(&Inputs::default()).expect("valid");
    let expected = KeeperSettings::new(
        crate::core::preset::Preset::Raindrop.spec().build().expect("valid"),
        "127.0.0.1:8080#unknown",
    );
    assert_eq!(format!("{:?}", keeper(&config)), format!("{expected:?}"));
    assert_eq!(config.store.url, StoreUrl::new("sqlite://raindrop.db"));
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.http.cors_origins, CorsOrigins::Any);
    let log = LogConfig {
        level: "info",
        format: LogFormat::Text,
        requests: LoggedRequests::Errors,
        slow_after: Duration::from_secs(1),
    };
    assert_eq!(config.log, log);
}

#[test]
fn each_default_of_the_table_is_the_default_of_the_code() {
    let defaults = Config::load(&Inputs::default()).expect("valid");
    for key in KEYS {
        let (value, source) = value_of(&defaults, key.name);
        assert_eq!(source, "default");
        let Some(default) = key.default else { continue };
        assert_eq!(value, default, "{}", key.name);
        let same = Config::load(&environment(&[(key.name, default)])).expect(key.name);
        assert_eq!(
            format!("{:?}", keeper(&same)),
            format!("{:?}", keeper(&defaults)),
            "{}",
            key.name
        );
        assert_eq!(value_of(&same, key.name).0, default);
    }
}

#[test]
fn the_example_file_lists_every_key_with_its_default_and_meaning() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/.env.example");
    let text = fs::read_to_string(path).expect(".env.example");
    let lines: Vec<&str> = text.lines().collect();
    let found: Vec<(String, &str)> = lines
        .windows(2)
        .filter(|pair| pair[1].starts_with("#RAINDROP__"))
        .map(|pair| (pair[1].to_owned(), pair[0].trim_start_matches("# ")))
        .collect();
    let expected: Vec<(String, &str)> = KEYS
        .iter()
        .map(|key| {
            let variable = keys::variable(key.name);
            (format!("#{variable}={}", key.default.unwrap_or_default()), key.help)
        })
        .collect();
    assert_eq!(found, expected);
}

/// The configuration file of the packages: every key as a comment, with its default and meaning.
fn file_of_packages() -> String {
    let mut text = "\
# Raindrop's configuration: each key with its default, if it has one. Uncomment what you change.
# RAINDROP__HTTP__LISTEN and the like override this file; `raindrop config` shows the result.

"
    .to_owned();
    let mut section = "";
    for key in KEYS {
        let (this, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if this != section {
            section = this;
            text += &format!("\n[{section}]\n");
        }
        text += &format!("# {}\n#{name} =", key.help);
        text += &match key.default {
            None => "\n".to_owned(),
            Some(bare) if bare.parse::<u64>().is_ok() || bare.parse::<bool>().is_ok() => {
                format!(" {bare}\n")
            }
            Some(quoted) => format!(" \"{quoted}\"\n"),
        };
    }
    text
}

#[test]
fn the_file_of_the_packages_lists_every_key_with_its_default_and_meaning() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/packages/raindrop.toml");
    let expected = file_of_packages();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, &expected).expect("written");
    }
    assert_eq!(fs::read_to_string(path).expect("kept"), expected, "UPDATE=1 rewrites {path}");

    let (_folder, inputs) = file(&expected);
    let config = Config::load(&inputs).expect("comments alone");
    assert!(config.effective.iter().all(|setting| setting.source == "default"));

    // Each default, uncommented alone, is what it says.
    let lines: Vec<&str> = expected.lines().collect();
    let is_default =
        |index: &usize| lines[*index].starts_with('#') && !lines[*index].ends_with('=');
    let settings = (0..lines.len()).filter(|index| !lines[*index].starts_with("# "));
    let defaults: Vec<usize> = settings.filter(is_default).collect();
    let keys: Vec<&Key> = KEYS.iter().filter(|key| key.default.is_some()).collect();
    assert_eq!(defaults.len(), keys.len());
    for (key, index) in keys.into_iter().zip(defaults) {
        let mut lines = lines.clone();
        lines[index] = &lines[index][1..];
        let (_folder, inputs) = file(&lines.join("\n"));
        let (value, source) = value_of(&Config::load(&inputs).expect(key.name), key.name);
        assert_eq!(Some(&*value), key.default, "{}", key.name);
        assert_ne!(source, "default", "{}", key.name);
    }
}

#[test]
fn later_layers_win_and_are_named() {
    let (folder, mut inputs) = file(
        "[http]\nlisten = '1.1.1.1:1'\nmax_batch = 11\nmax_in_flight = 12\n[lease]\nwindow = '6m'\n",
    );
    // Beside a file that is named elsewhere it is not read.
    let file = inputs.file.take().expect("a file").display().to_string();
    let dot_env = folder.path().join(".env");
    let text = format!(
        "RAINDROP_CONFIG='{file}'\nRAINDROP__HTTP__LISTEN=2.2.2.2:2\nRAINDROP__HTTP__MAX_BATCH='22'\n"
    );
    fs::write(&dot_env, text).expect("written");
    inputs.dot_env = Some(dot_env.clone());
    inputs.environment = environment(&[("http.listen", "3.3.3.3:3")]).environment;
    let config = Config::load(&inputs).expect("valid");
    assert_eq!(config.dot_env, Some(dot_env));
    for (key, value, source) in [
        ("http.listen", "3.3.3.3:3", "environment variable RAINDROP__HTTP__LISTEN"),
        ("http.max_batch", "22", "RAINDROP__HTTP__MAX_BATCH in .env"),
        ("http.max_in_flight", "12", &file),
        ("lease.ttl", "90s", "default"),
    ] {
        assert_eq!(value_of(&config, key), (value.to_owned(), source.to_owned()));
    }
    assert_eq!(config.http.max_batch, 22);
    assert_eq!(keeper(&config).lease.window, Duration::from_mins(6));

    let flag = FlagValue { flag: "--listen", key: "http.listen", value: "4.4.4.4:4".into() };
    inputs.flags.push(flag);
    let config = Config::load(&inputs).expect("valid");
    assert_eq!(value_of(&config, "http.listen"), ("4.4.4.4:4".into(), "--listen".into()));
}

#[test]
fn the_file_of_the_working_folder_is_not_read_beside_one_that_is_named() {
    let (folder, mut inputs) = file("[http]\nmax_batch = 11\n");
    let dot_env = folder.path().join(".env");
    fs::write(&dot_env, "RAINDROP__HTTP__MAX_BATCH=22\n").expect("written");
    inputs.dot_env = Some(dot_env);
    let check = |inputs: &Inputs| {
        let config = Config::load(inputs).expect("valid");
        assert_eq!((config.http.max_batch, config.dot_env), (11, None));
    };
    check(&inputs);
    let path = inputs.file.take().expect("a file").display().to_string();
    inputs.environment.insert("RAINDROP_CONFIG".into(), path);
    check(&inputs);
}

#[test]
fn values_of_the_environment_are_utf_8() {
    let mut inputs = environment(&[]);
    let lossy = String::from_utf8_lossy(b"caf\xe9").into_owned();
    inputs.environment.insert("RAINDROP__WORKER__HOLDER".into(), lossy);
    let told = "environment variable RAINDROP__WORKER__HOLDER: its value must be UTF-8";
    assert_eq!(problems(&inputs), [told]);
}

#[test]
fn changes_without_a_token_are_no_setting_beside_tokens() {
    let inputs =
        environment(&[("http.admin_changes", "true"), ("auth.tokens_file", "tokens.toml")]);
    let found = problems(&inputs);
    assert_eq!(found.len(), 1, "{found:?}");
    let told = "must be false beside auth.tokens_file (tokens.toml, environment variable";
    assert!(found[0].contains(told), "{found:?}");
}

#[test]
fn the_environment_may_name_the_file_which_must_then_exist() {
    let (_folder, mut inputs) = file("log.level = 'debug'");
    let path = inputs.file.take().expect("a file").display().to_string();
    inputs.environment.insert("RAINDROP_CONFIG".into(), path);
    assert_eq!(Config::load(&inputs).expect("valid").log.level, "debug");

    inputs.environment.insert("RAINDROP_CONFIG".into(), "/nowhere.toml".into());
    let found = problems(&inputs);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("/nowhere.toml: "), "{found:?}");
}

#[test]
fn misspelled_variables_are_refused_in_every_layer() {
    let (folder, mut inputs) = file("");
    inputs.file = None;
    let dot_env = folder.path().join(".env");
    fs::write(&dot_env, "raindrop__store__url=mysql://u:hunter2@db/ids\nRAINDROP_LOG_LEVEL=\n")
        .expect("written");
    inputs.dot_env = Some(dot_env);
    for (name, value) in [
        ("RAINDROP_STORE__URL", "mysql://u:hunter2@db/ids"),
        ("RAINDROP_NAMESPACES_WEB_LEASE_TTL", "2m"),
        ("RAINDROP__Lease__Ttl", "2m"),
        ("RAINDROP__LEASE__TTL", "3m"),
        ("Raindrop_Config", "raindrop.toml"),
        ("RAINDROP_HTTP_LISTEN", ""),
        ("RAINDROP_PORT", "tcp://10.0.0.1:8080"),
        ("RAINDROP_STORE_SERVICE_HOST", "10.0.0.1"),
    ] {
        inputs.environment.insert(name.into(), value.into());
    }
    let mut found = problems(&inputs);
    found.sort();
    assert_eq!(
        found,
        [
            "environment variable RAINDROP_NAMESPACES_WEB_LEASE_TTL: misspelled, must be \
             RAINDROP__NAMESPACES__WEB__LEASE__TTL",
            "environment variable RAINDROP_STORE__URL: misspelled, must be RAINDROP__STORE__URL",
            "environment variable RAINDROP__Lease__Ttl: misspelled, must be RAINDROP__LEASE__TTL",
            "environment variable Raindrop_Config: misspelled, must be RAINDROP_CONFIG",
            "raindrop__store__url in .env: misspelled, must be RAINDROP__STORE__URL",
        ]
    );
}

#[test]
fn variable_with_one_underscore_for_each_dot_counts_unless_the_other_spelling_differs() {
    let load = |pairs: &[(&str, &str)]| {
        let environment = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Config::load(&Inputs { environment: environment.collect(), ..Inputs::default() })
    };
    let short = ("RAINDROP_HTTP_MAX_BATCH", "22");
    for other in ["22", ""] {
        let config = load(&[short, ("RAINDROP__HTTP__MAX_BATCH", other)]).expect("valid");
        assert_eq!(config.http.max_batch, 22);
    }
    let config = load(&[short]).expect("valid");
    let source = "environment variable RAINDROP_HTTP_MAX_BATCH".to_owned();
    assert_eq!(value_of(&config, "http.max_batch"), ("22".to_owned(), source));
    // Empty, these mean something.
    for name in ["HTTP__CORS_ORIGINS", "AUTH__TOKENS_FILE"] {
        let long = format!("RAINDROP__{name}");
        let pairs = [(long.replace("__", "_"), "https://a.example"), (long, "")];
        let environment = pairs.map(|(name, value)| (name, value.to_owned())).into();
        let found = problems(&Inputs { environment, ..Inputs::default() });
        assert!(found.iter().any(|it| it.contains("has another value")), "{found:?}");
    }
    let error = load(&[short, ("RAINDROP__HTTP__MAX_BATCH", "23")]).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "environment variable RAINDROP_HTTP_MAX_BATCH: RAINDROP__HTTP__MAX_BATCH has another value, \
         so which one counts is unknown"
    );
}

#[test]
fn variables_of_a_service_named_raindrop_are_ignored() {
    let pairs = [("RAINDROP_PORT", "tcp://10.0.0.1:8080"), ("RAINDROP_HTTP_PORT", "80")];
    let environment = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Config::load(&Inputs { environment, ..Inputs::default() }).expect("valid");
}

#[test]
fn every_problem_is_reported_at_once_with_its_source() {
    let (_folder, mut inputs) = file(
        "mode = 'segments'\nunknown = 1\n[layout]\nworker_bits = 2\n[lease]\nttl = 300\nrenew = '2m'\n\
         [http]\nlisten = ['a', 'b']\nprot = 1\n[auth]\ntokens_file = ''\n[log.level]\nx = 1\n",
    );
    inputs.environment = environment(&[
        ("codes.max", "0"),
        ("codes.allow", "good,bad code"),
        ("issue.max_wait", "11s"),
        ("worker.prefer_previous", "yes"),
        ("http.cors_origins", "https://a.example/path"),
    ])
    .environment;
    let file = inputs.file.as_ref().expect("a file").display().to_string();
    let mut found = problems(&inputs);
    found.sort();
    let expected = [
        format!("auth.tokens_file = nothing ({file}): must be the path of a file, or unset"),
        "codes.allow = good,bad code (environment variable RAINDROP__CODES__ALLOW): must be codes that match [A-Za-z0-9][A-Za-z0-9._:-]{0,63}, or series such as invoice:*".into(),
        "codes.max = 0 (environment variable RAINDROP__CODES__MAX): must be 1 to 10000000".into(),
        "http.cors_origins = https://a.example/path (environment variable RAINDROP__HTTP__CORS_ORIGINS): must be * or none alone, or origins such as https://app.example.com, in lower case and without a path or the default port".into(),
        format!("http.listen = [a, b] ({file}): must be an address and port such as 127.0.0.1:8080 or [::]:8080; :8080 for every address, or localhost:8080, but no other name"),
        format!("http.prot ({file}): unknown key; known are http.listen, http.admin_listen, http.admin_hosts, http.admin_changes, http.max_batch, http.max_range, http.cors_origins, http.request_timeout, http.max_connections, http.idle_timeout, http.max_in_flight, http.max_unsent, http.console, http.tls.cert_file, http.tls.key_file, http.tls.client_ca_file, http.tls.client_crl_file, http.max_connections_per_ip, http.max_requests_per_ip, http.trusted_proxies, http.drain_delay, http.shutdown_timeout"),
        "issue.max_wait = 11s (environment variable RAINDROP__ISSUE__MAX_WAIT): must be less than half of http.request_timeout (10s, default)".into(),
        format!("layout.worker_bits = 2 ({file}): must be 3 to 16"),
        format!("lease.ttl = 300 ({file}): must be a duration with its unit such as 500ms, 5m or 1h30m, 500ms to 1h"),
        format!("log.level = {{…}} ({file}): must be off, error, warn, info, debug, trace"),
        format!("mode = segments ({file}): must be snowflake or segment"),
        format!("unknown ({file}): unknown key; known are mode, layout, worker, store, issue, lease, rollback, segment, codes, http, auth, log, namespaces, layouts, code"),
        "worker.prefer_previous = yes (environment variable RAINDROP__WORKER__PREFER_PREVIOUS): must be true or false".into(),
    ];
    assert_eq!(found, expected);
}

#[test]
fn relations_between_keys_are_checked() {
    let rejects = |pairs: &[(&str, &str)], start: &str| {
        let found = problems(&environment(pairs));
        assert!(found.len() == 1 && found[0].starts_with(start), "{pairs:?}: {found:?}");
    };
    rejects(&[("lease.ttl", "60s")], "lease.ttl = 60s");
    rejects(&[("lease.stale_wait", "44s")], "lease.stale_wait = 44s");
    rejects(&[("lease.window", "60s"), ("lease.renew", "30s")], "lease.window = 60s");
    rejects(&[("issue.borrow_ahead", "151s")], "issue.borrow_ahead = 151s");
    rejects(&[("rollback.hold", "6m")], "rollback.hold = 6m");
    rejects(&[("http.request_timeout", "1s")], "issue.max_wait = 1s (default)");
    rejects(&[("http.admin_listen", "127.0.0.1:8080")], "http.admin_listen = 127.0.0.1:8080");
    rejects(&[("http.admin_listen", "9090")], "http.admin_listen = 9090");
    rejects(&[("worker.id", "512")], "worker.id = 512");
    rejects(&[("worker.id", "1"), ("worker.min_id", "1")], "worker.min_id = 1");
    rejects(&[("worker.max_id", "512")], "worker.max_id = 512");
    rejects(&[("worker.min_id", "9"), ("worker.max_id", "8")], "worker.min_id = 9");
    rejects(&[("layout.preset", "js-safe"), ("layout.worker_bits", "5")], "layout.worker_bits = 5");
    rejects(&[("layout.preset", "other")], "layout.preset = other");
    rejects(&[("layout.data_center", "1")], "layout.data_center = 1");
    rejects(&[("layout.timestamp_bits", "x")], "layout.timestamp_bits = x");
    rejects(&[("layout.preset", "lingdu")], "layout.preset = lingdu");
    rejects(&[("store.url", "memory:")], "store.url = memory:");
    let state_file = ("store.state_file", "state");
    let memory = [("store.url", "memory:"), ("worker.id", "1"), state_file];
    rejects(&memory, "store.state_file = state");
    rejects(&[("mode", "segment"), state_file], "store.state_file = state");
    rejects(&[("store.url", "oracle://db")], "store.url = oracle://db");
    rejects(&[("store.worker_table", "a-b")], "store.worker_table = a-b");
}

#[test]
fn short_durations_are_valid() {
    let inputs = environment(&[
        ("lease.ttl", "1s"),
        ("lease.renew", "200ms"),
        ("lease.window", "2s"),
        ("rollback.policy", "swap"),
        ("http.drain_delay", "0"),
    ]);
    let config = Config::load(&inputs).expect("valid");
    assert_eq!(keeper(&config).lease.renew, Duration::from_millis(200));
    assert_eq!(keeper(&config).lease.stale_wait, Duration::from_millis(300));
    assert_eq!(value_of(&config, "lease.stale_wait").0, "300ms");
    let off = Config::load(&environment(&[("lease.stale_wait", "0")])).expect("valid");
    assert_eq!(keeper(&off).lease.stale_wait, Duration::ZERO);
    assert_eq!(keeper(&config).issue.rollback, RollbackPolicy::Swap);
}

#[test]
fn a_state_file_needs_renewals_at_least_10_s_apart() {
    let found = |pairs: &[(&str, &str)]| problems(&environment(pairs));
    let state_file = ("store.state_file", "state");
    assert_eq!(Config::load(&environment(&[state_file, ("lease.renew", "10s")])).err(), None);
    let allowed = "must be at least 10s with store.state_file";
    assert_eq!(
        found(&[state_file, ("lease.renew", "9999ms")]),
        [format!("lease.renew = 9999ms (environment variable RAINDROP__LEASE__RENEW): {allowed}")]
    );
    assert_eq!(
        found(&[state_file, ("namespaces.orders.lease.renew", "1s")]),
        [format!(
            "namespaces.orders.lease.renew = 1s (environment variable \
             RAINDROP__NAMESPACES__ORDERS__LEASE__RENEW): {allowed}"
        )]
    );
}

#[test]
fn a_layout_is_a_preset_or_custom() {
    let words = |pairs: &[(&str, &str)]| {
        keeper(&Config::load(&environment(pairs)).expect("valid")).layout.canonical()
    };
    assert!(words(&[("layout.preset", "js-safe")]).contains("timestamp=50 data_center=0 worker=5"));
    let seconds = words(&[("layout.time_unit", "2"), ("layout.data_center_bits", "10")]);
    assert!(seconds.starts_with("unit=second") && seconds.contains("sequence=12"), "{seconds}");
    let config = Config::load(&environment(&[
        ("layout.preset", "js-safe"),
        ("layout.rollback_initial", "1"),
        ("layout.epoch", "2026-01-01T00:00:00Z"),
    ]))
    .expect("valid");
    assert_eq!(keeper(&config).max_worker, 31);
    assert_eq!(value_of(&config, "layout.worker_bits"), ("5".into(), "preset js-safe".into()));
    assert_eq!(value_of(&config, "layout.epoch").0, "2026-01-01T00:00:00Z");
    let (_folder, inputs) = file("layout.epoch = 2026-01-01T00:00:00Z\nlayout.worker_bits = 4");
    let config = Config::load(&inputs).expect("valid");
    assert_eq!(keeper(&config).layout.epoch_ms(), 1_767_225_600_000);
    assert_eq!((keeper(&config).min_worker, keeper(&config).max_worker), (1, 15));
}

#[test]
fn backfill_needs_a_layout_that_reserves_ids_for_it() {
    let (_folder, inputs) = file(
        "layout.preset = 'yitter'\nlayout.backfill_from = 2024-02-29T00:00:00Z\n\
         [namespaces.later.layout]\nmin_sequence = 1\nbackfill_from = '2025-01-01T01:00:00+01:00'\n\
         [namespaces.closed.layout]\nmin_sequence = 1\n",
    );
    let config = Config::load(&inputs).expect("valid");
    let opened = ["default", "later", "closed"]
        .map(|name| keeper_of(&config, name).expect(name).backfill_from_ms);
    assert_eq!(opened, [Some(1_709_164_800_000), Some(1_735_689_600_000), None]);
    assert_eq!(value_of(&config, "layout.backfill_from").0, "2024-02-29T00:00:00Z");
    assert_eq!(value_of(&config, "namespaces.closed.layout.backfill_from").0, "");

    let refusal = |pairs: &[(&str, &str)]| {
        let mut found = problems(&environment(pairs));
        found.retain(|problem| problem.starts_with("layout.backfill_from"));
        found
    };
    let source = "environment variable RAINDROP__LAYOUT__BACKFILL_FROM";
    let from = |value| ("layout.backfill_from", value);
    assert_eq!(
        refusal(&[from("2026-01-01T00:00:00Z")]),
        [format!(
            "layout.backfill_from = 2026-01-01T00:00:00Z ({source}): must be left out where \
             layout.min_sequence is 0: no IDs are reserved for a past time"
        )]
    );
    assert_eq!(
        refusal(&[from("2020-02-19T18:20:01.999Z"), ("layout.preset", "yitter")]),
        [format!(
            "layout.backfill_from = 2020-02-19T18:20:01.999Z ({source}): must be from \
             2020-02-19T18:20:02Z, where the layout begins, to before the year 73376, where it ends"
        )]
    );
    assert_eq!(
        refusal(&[from("yesterday"), ("layout.preset", "yitter")]),
        [format!(
            "layout.backfill_from = yesterday ({source}): must be an RFC 3339 instant such as \
             2025-01-01T00:00:00Z"
        )]
    );
    // A bad layout hides problems that follow from it; a bad lease does not.
    let bad_layout = [from("2026-01-01T00:00:00Z"), ("layout.min_sequence", "x")];
    assert_eq!(refusal(&bad_layout), [""; 0]);
    assert_eq!(refusal(&[from("2026-01-01T00:00:00Z"), ("lease.ttl", "x")]).len(), 1);
}

#[test]
fn a_worker_id_may_come_from_the_machine() {
    let with_host = |source: &str, name: &str| {
        let host = Host { ip: Some([10, 0, 3, 7].into()), mac: None, name: Some(name.into()) };
        Config::load(&Inputs { host, ..environment(&[("worker.source", source)]) })
    };
    let ids = |config: Config| (keeper(&config).min_worker, keeper(&config).max_worker);
    assert_eq!(ids(with_host("hostname", "raindrop-12").expect("valid")), (12, 12));
    assert_eq!(ids(with_host("ip", "any").expect("valid")), (263, 263));
    assert!(with_host("hostname", "raindrop").is_err());
    assert!(with_host("hostname", "raindrop-512").is_err());
    let zero = Config::load(&environment(&[("worker.id", "0"), ("store.url", "memory:")]));
    assert_eq!(ids(zero.expect("valid")), (0, 0));
}

#[test]
fn secrets_are_read_from_files_and_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let password = secret("password", "hunter2/x\n");
    let url = secret("url", "mysql://root:hunter2@db/ids\n");

    let inputs =
        environment(&[("store.url", "mysql://root@db/ids"), ("store.password_file", &password)]);
    let config = Config::load(&inputs).expect("valid");
    assert_eq!(config.store.url, StoreUrl::new("mysql://root:hunter2%2Fx@db/ids"));
    assert!(!format!("{config:?}").contains("hunter2"));

    let config = Config::load(&environment(&[("store.url_file", &url)])).expect("valid");
    assert_eq!(config.store.url, StoreUrl::new("mysql://root:hunter2@db/ids"));
    assert!(!format!("{config:?}").contains("hunter2"));

    #[cfg(unix)]
    for (mode, is_noted) in [(0o604, true), (0o644, true), (0o640, false), (0o600, false)] {
        use std::os::unix::fs::PermissionsExt as _;

        for file in [&password, &url] {
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("own");
        }
        for inputs in [&inputs, &environment(&[("store.url_file", &url)])] {
            let notes = Config::load(inputs).expect("valid").notes.join("\n");
            let said = format!("its mode, {mode:o}, lets everybody read this secret");
            assert_eq!(notes.contains(&said), is_noted, "{notes}");
        }
        // Not while the configuration is read: its file is not opened yet.
        let pairs = [("http.tls.cert_file", "none"), ("http.tls.key_file", &password)];
        let config = Config::load(&environment(&pairs)).expect("valid");
        assert_eq!(config.notes, [""; 0]);
        let note = config.http.tls.and_then(|tls| tls.readable_key());
        assert_eq!(note.is_some(), is_noted, "{note:?}");
        assert!(note.is_none_or(|note| note.starts_with("http.tls.key_file = ")));
    }

    for pairs in [
        vec![("store.url_file", url.as_str()), ("store.password_file", &password)],
        vec![("store.url", "mysql://a:hunter2@db/ids"), ("store.url_file", &url)],
        vec![("store.url", "mysqll://a:hunter2@db/ids")],
        vec![("store.url", "a:hunter2@tcp(db:3306)/ids")],
        vec![("store.url", "oracle://db/ids?pwd=hunter2")],
        vec![("store.url", "mysql://a:hunter2@db/ids"), ("store.password_file", "/nowhere")],
        vec![("store.pasword", "hunter2")],
    ] {
        let found = problems(&environment(&pairs)).join("\n");
        assert!(!found.contains("hunter2"), "{found}");
    }
    for (url, is_redis) in [
        ("redis://host/0", true),
        ("rediss://host/0", true),
        ("redis+sentinel://host/ids/0", true),
        ("mysql://host/ids", false),
    ] {
        let pairs = [("store.url", url), ("store.password_file", password.as_str())];
        let found = problems(&environment(&pairs)).join("\n");
        let said = "requirepass is default, as in redis://default@host/0";
        assert!(found.contains("must name a user and no password"), "{found}");
        assert_eq!(found.contains(said), is_redis, "{found}");
    }
    if cfg!(feature = "redis") {
        let pairs =
            [("store.url", "redis://default@localhost/0"), ("store.password_file", &password)];
        assert!(Config::load(&environment(&pairs)).is_ok());
    }
}

#[test]
fn addresses_of_every_store_are_checked() {
    for (url, is_built_in) in [
        ("sqlite://a.db", cfg!(feature = "sqlite")),
        ("mysql://u@db/ids", cfg!(feature = "mysql")),
        ("mariadb://u@db/ids", cfg!(feature = "mysql")),
        ("postgres://u@db/ids", cfg!(feature = "postgres")),
        ("postgresql://u@db/ids", cfg!(feature = "postgres")),
        ("redis://db", cfg!(feature = "redis")),
        ("rediss://u@db:6380/1", cfg!(feature = "redis")),
        ("mysql://u@a,b:3307/ids", cfg!(feature = "mysql")),
        ("redis+sentinel://a,b/ids", cfg!(feature = "redis")),
        ("redis-sentinel://db", false),
        ("mysql://u@db", false),
        ("postgres://u@db:port/ids", false),
        ("redis://db/words", false),
        ("sqlite:///", false),
        ("sqlite://a.db?mode=ro", false),
        ("redis:db", false),
        ("mysql:ids", false),
        ("mysql:/u:p@db/ids", false),
        ("mariadb:/ids", false),
        ("postgres:/u:p@db/ids", false),
    ] {
        assert_eq!(Config::load(&environment(&[("store.url", url)])).is_ok(), is_built_in, "{url}");
    }
}

#[test]
fn unreadable_files_are_named_and_never_quoted() {
    let (folder, mut inputs) = file("[store]\nurl = \"mysql://root:hunter2@db\n");
    let dot_env = folder.path().join(".env");
    fs::write(&dot_env, "# comment\n\nRAINDROP__STORE__URL mysql://root:hunter2@db\n")
        .expect("written");
    inputs.dot_env = Some(dot_env);
    let mut found = problems(&inputs);
    inputs.file = None;
    found.extend(problems(&inputs));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("line 2"), "{found:?}");
    assert!(found[1].contains("line 3: not of the form NAME=value, "), "{found:?}");
    assert!(!found.join("\n").contains("hunter2"), "{found:?}");
}

/// Loads the configuration of a file.
fn load(text: &str) -> Result<Config, ConfigError> {
    let (_folder, inputs) = file(text);
    Config::load(&inputs)
}

#[test]
fn the_examples_of_the_documentation_are_valid() {
    for page in ["docs/configuration.md", "docs/segments.md"] {
        let path = format!("{}/{page}", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(path).expect(page);
        // Blocks of Cargo.toml are about dependencies.
        let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let example: String =
            blocks.filter(|block| !block.starts_with("raindrop-keeper =")).collect();
        let config = load(&example).expect(page);
        if page == "docs/segments.md" {
            let codes: Vec<&String> = config.segments().flat_map(|of| of.codes.keys()).collect();
            assert_eq!(codes, ["invoice", "order"]);
            continue;
        }
        let web = keeper_of(&config, "web").expect("a namespace").layout.canonical();
        assert!(web.contains("timestamp=50"), "{page}");
        assert_eq!(config.codes.locate("order", None).map(|located| located.namespace), Ok("web"));
    }
}
