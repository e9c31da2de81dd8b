use super::*;

pub(super) fn refused(text: &str) -> Vec<String> {
    let error = load(text).expect_err("problems");
    // The folder's name differs from run to run.
    let line = |problem: &ConfigProblem| {
        let mut text = problem.to_string();
        while let Some(end) = text.find("/raindrop.toml") {
            let start = text[..end].rfind([' ', '(']).map_or(0, |index| index + 1);
            text.replace_range(start..end + "/raindrop.toml".len(), "file");
        }
        text
    };
    let mut lines: Vec<String> = error.0.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn a_namespace_has_its_own_layout_and_inherits_the_rest() {
    let config = load(
        "[layout]\npreset = 'js-safe'\n[lease]\nwindow = '6m'\nttl = '100s'\n[worker]\nmax_id = 20\n\
         [namespaces.b.lease]\nttl = '2m'\n[namespaces.a.layout]\ntime_unit = 'second'\n[namespaces.c]\n",
    )
    .expect("valid");
    let names: Vec<&str> = config.keepers().map(|keeper| keeper.namespace.as_str()).collect();
    assert_eq!(names, ["default", "a", "b", "c"]);
    let of = |name| keeper_of(&config, name).expect("a namespace");
    assert!(of("default").layout.canonical().contains("timestamp=50"));
    assert!(of("a").layout.canonical().starts_with("unit=second"));
    for name in ["b", "c"] {
        assert_eq!(
            of(name).layout,
            crate::core::preset::Preset::Raindrop.spec().build().expect("valid")
        );
    }
    let seconds = |name| (of(name).lease.window.as_secs(), of(name).lease.ttl.as_secs());
    assert_eq!(
        [seconds("default"), seconds("a"), seconds("b")],
        [(360, 100), (360, 100), (360, 120)]
    );
    assert!(config.keepers().all(|keeper| (keeper.min_worker, keeper.max_worker) == (1, 20)));
    let (value, source) = value_of(&config, "namespaces.b.lease.window");
    assert!(value == "6m" && source.ends_with("raindrop.toml"), "{value} {source}");
    assert_eq!(value_of(&config, "namespaces.b.lease.renew"), ("30s".into(), "default".into()));
    assert_eq!(value_of(&config, "namespaces.a.layout.time_unit").0, "second");
    assert!(config.effective.iter().all(|setting| !setting.key.starts_with("namespaces.a.http")));
}

#[test]
fn a_namespace_may_come_from_the_environment() {
    let config = Config::load(&environment(&[
        ("namespaces.my_orders.lease.window", "7m"),
        ("namespaces.my_orders.layout.preset", "js-safe"),
        ("lease.ttl", "2m"),
    ]))
    .expect("valid");
    let orders = keeper_of(&config, "my_orders").expect("a namespace");
    assert_eq!(orders.lease.window, Duration::from_mins(7));
    assert_eq!(orders.lease.ttl, Duration::from_mins(2));
    assert_eq!(
        value_of(&config, "namespaces.my_orders.lease.window").1,
        "environment variable RAINDROP__NAMESPACES__MY_ORDERS__LEASE__WINDOW"
    );
    let window = |config: &Config| value_of(config, "namespaces.my_orders.layout.worker_bits");
    assert_eq!(window(&config), ("5".into(), "preset js-safe".into()));
}

#[test]
fn problems_of_namespaces_are_reported_together_and_once() {
    let found = refused(
        "[lease]\nttl = 'x'\nrenew = '30s'\n\
         [namespaces.a]\nfoo = 1\nlayout.preset = 'other'\nworker.min_id = 600\n\
         [namespaces.b]\nlease.window = '60s'\nhttp.listen = '[::]:80'\nlease.tll = '1s'\n\
         [namespaces.c]\nworker.id = 9\nworker.max_id = 9\nmode = 'counting'\n\
         [namespaces.default]\nlease.ttl = '1s'\n[namespaces.Orders]\n[namespaces.a-b.lease]\nttl = '1s'\n",
    );
    let presets = crate::core::preset::Preset::ALL.map(|preset| preset.name()).join(", ");
    let preset = format!("namespaces.a.layout.preset = other (file): must be one of {presets}");
    assert_eq!(
        found,
        [
            "lease.ttl = x (file): must be a duration with its unit such as 500ms, 5m or 1h30m, 500ms to 1h",
            "namespaces.Orders = {…} (file): must be renamed to match [a-z][a-z0-9_]{0,31}",
            "namespaces.a-b = {…} (file): must be renamed to match [a-z][a-z0-9_]{0,31}",
            "namespaces.a.foo (file): unknown key; known are mode, layout, worker, issue, lease, rollback, segment, codes",
            &preset,
            "namespaces.b.http.listen (file): unknown key; known are mode, layout, worker, issue, lease, rollback, segment, codes",
            "namespaces.b.lease.tll (file): unknown key; known are lease.window, lease.ttl, lease.renew, lease.max_clock_skew, lease.stale_wait",
            "namespaces.c.mode = counting (file): must be snowflake or segment",
            "namespaces.c.worker.max_id = 9 (file): must be left out beside worker.id",
            "namespaces.default = {…} (file): must be left out: the keys at the top level are those of default",
        ]
    );
    // Inherited values are held against a namespace where they do not fit it.
    assert_eq!(
        refused(
            "[lease]\nrenew = '1m'\nttl = '3m'\n[worker]\nmax_id = 100\n[namespaces.b]\nlayout.preset = 'js-safe'\n[namespaces.c]\nlease.ttl = '90s'\n"
        ),
        [
            "namespaces.b.worker.max_id = 100 (file): must be 0 to 31",
            "namespaces.c.lease.ttl = 90s (file): must be more than twice lease.renew (60s)",
        ]
    );
    let found =
        problems(&environment(&[("namespaces.a", "1"), ("namespaces", "2"), ("code", "3")]));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().any(|line| line.starts_with("code = 3 ") && line.contains("[[code]]")));
    let (_folder, inputs) = file("[[codes]]\nname = 'order'\n");
    let found = problems(&inputs);
    assert!(found.len() == 1 && found[0].contains("entries of codes are [[code]]"), "{found:?}");
}

#[test]
fn a_namespaces_worker_ids_replace_inherited_ones() {
    let ids = |text: &str| {
        let config = load(text).expect("valid");
        let keeper = keeper_of(&config, "a").expect("a namespace");
        (keeper.min_worker, keeper.max_worker)
    };
    assert_eq!(ids("[worker]\nid = 5\n[namespaces.a]\n"), (5, 5));
    assert_eq!(ids("[worker]\nid = 5\n[namespaces.a.worker]\nmin_id = 7\n"), (7, 511));
    assert_eq!(ids("[worker]\nmax_id = 9\n[namespaces.a.worker]\nid = 0\n"), (0, 0));
    assert_eq!(
        ids("[worker]\nmin_id = 3\nmax_id = 9\n[namespaces.a.worker]\nmax_id = 4\n"),
        (3, 4)
    );
    let found =
        problems(&environment(&[("store.url", "memory:"), ("namespaces.a.worker.id", "1")]));
    assert!(found.len() == 1 && found[0].contains("(none is for default)"), "{found:?}");
    let both = environment(&[
        ("store.url", "memory:"),
        ("worker.id", "1"),
        ("namespaces.a.mode", "snowflake"),
    ]);
    assert!(Config::load(&both).is_ok());
}

#[test]
fn a_given_worker_id_states_its_premise() {
    let config = load("[worker]\nid = 5\n[namespaces.a]\nworker.min_id = 1\n").expect("valid");
    let premise = |index: usize| {
        let Mode::Snowflake { premise, .. } = &config.namespaces[index].mode else {
            panic!("a snowflake namespace")
        };
        premise.clone()
    };
    assert_eq!(premise(0).as_deref(), Some("no other process is given worker id 5"));
    assert_eq!(premise(1), None);
}

#[test]
fn codes_are_bound_and_prefixed() {
    let config = load(
        "[namespaces.qr]\n[[code]]\nname = 'order'\nprefix = 'ORD-'\n[[code]]\nname = 'scene'\nnamespace = 'qr'\n",
    )
    .expect("valid");
    let located = |code| {
        let located = config.codes.locate(code, None).expect("located");
        (located.namespace, located.prefix)
    };
    assert_eq!(located("order"), ("default", Some("ORD-")));
    assert_eq!(located("scene"), ("qr", None));
    assert_eq!(located("other"), ("default", None));
    assert_eq!(value_of(&config, "[[code]] order: prefix").0, "ORD-");
    assert_eq!(
        value_of(&config, "[[code]] order: namespace"),
        ("default".into(), "default".into())
    );
}

#[test]
fn problems_of_codes_are_reported_together() {
    let found = refused(
        "[codes]\nallow = ['a', 'b', 'c', 'd']\n[namespaces.x]\ncodes.allow = ['x']\n[namespaces.y]\n\
         [[code]]\nname = 'a'\nstart = 5\nstrat = 6\n[[code]]\nname = 'a'\n[[code]]\nprefix = 'P-'\n\
         [[code]]\nname = 'b c'\n[[code]]\nname = 'b'\nnamespace = 'nowhere'\nprefix = '1-'\n\
         [[code]]\nname = 'c'\nnamespace = 'x'\n[[code]]\nname = 'd'\nprefix = 'ORD'\n\
         [[code]]\nname = 'x'\nnamespace = 'x'\nprefix = 'Q-'\n[[code]]\nname = 'd2'\nnamespace = 'y'\nprefix = 'Q-'\n",
    );
    let allowed_name = "must be a name that matches [A-Za-z0-9][A-Za-z0-9._:-]{0,63}, or a series such as invoice:*";
    let prefix = "must be 1 to 32 of A-Z a-z 0-9 . _ : -, a letter first and one of . _ : - last, such as ORD-";
    let mut expected = [
        "[[code]] a: start = 5 (file): must be left out: namespace \"default\" is not in segment mode".to_owned(),
        "[[code]] a: strat (file): unknown key; known are name, namespace, prefix, encoding, start, min_step, max_step, increment, remainder, js_safe, text, failover_gap, strict".into(),
        "[[code]] #2: name = a (file): must be used by one entry only".into(),
        format!("[[code]] #3: name = nothing (file): {allowed_name}"),
        format!("[[code]] #4: name = b c (file): {allowed_name}"),
        "[[code]] b: namespace = nowhere (file): must be default or x or y".into(),
        format!("[[code]] b: prefix = 1- (file): {prefix}"),
        "[[code]] c: name = c (file): must be one of codes.allow of namespace \"x\"".into(),
        format!("[[code]] d: prefix = ORD (file): {prefix}"),
        "[[code]] d2: name = d2 (file): must be one of codes.allow of namespace \"y\"".into(),
        "[[code]] d2: prefix = Q- (file): must be another one: code \"x\" of namespace \"x\" has it".into(),
    ];
    expected.sort();
    assert_eq!(found, expected);
}
