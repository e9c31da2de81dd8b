//! The `[layouts.NAME]` tables.

use super::{namespaces::refused, *};
use crate::core::preset::foreign::ForeignLayout;

#[test]
fn layouts_to_read_ids_by_are_named() {
    let config = load(
        "[layouts.old]\nlayout = 'time:29@1s, worker:21, sequence:13'\n\
         epoch = '2016-09-20T00:00:00+08:00'\n[layouts]\nnew-1.layout = 'time:63'\n",
    )
    .expect("valid");
    let old = "time:29@1s,worker:21,sequence:13";
    let expected = [
        ForeignLayout::described("new-1", "time:63", 0),
        ForeignLayout::described("old", old, 1_474_300_800_000),
    ];
    assert_eq!(config.layouts, expected.map(|layout| layout.expect("valid")));
    assert_eq!(value_of(&config, "layouts.old.epoch").0, "2016-09-19T16:00:00Z");
    assert_eq!(value_of(&config, "layouts.new-1.epoch").1, "default");
}

#[test]
fn every_bad_layout_is_told() {
    for (text, said) in [
        (
            "[layouts.discord]\nlayout = 'time:63'",
            "layouts.discord = {…} (file): must be renamed: discord is built in",
        ),
        (
            "[layouts.Old]\nlayout = 'time:63'",
            "layouts.Old = {…} (file): must be renamed to match [a-z]",
        ),
        (
            "[layouts.'a:b']\nlayout = 'time:63'",
            "layouts.a:b = {…} (file): must be renamed to match [a-z]",
        ),
        (
            "[layouts.old]\nepoch = '2020-01-01T00:00:00Z'",
            "layouts.old.layout = nothing (file): must be a description such as",
        ),
        ("[layouts.old]", "layouts.old.layout = nothing (file): must be a description such as"),
        (
            "[layouts.old]\nlayout = 'time:41,node:10'",
            "layouts.old.layout = time:41,node:10 (file): must be a description such as \
             time:39@10ms,sequence:8,worker:16; \"node:10\": must be a field of time,",
        ),
        (
            "[layouts.old]\nlayout = 'time:41'\nepoch = '2020'",
            "layouts.old.epoch = 2020 (file): must be an RFC 3339 instant",
        ),
        (
            "[layouts.old]\nlayuot = 'time:41'",
            "layouts.old.layuot (file): unknown key; known are layout, epoch",
        ),
        ("layouts = 5", "layouts = 5 (file): must be a table of keys, such as [layouts.old]"),
        (
            "[layouts]\nold = 5",
            "layouts.old = 5 (file): must be a table of keys, such as [layouts.old]",
        ),
    ] {
        let problems = refused(text);
        assert!(problems.iter().any(|problem| problem.contains(said)), "{text}: {problems:#?}");
    }
}

#[test]
fn layouts_are_named_by_variables_with_single_underscores_too() {
    let load = |key: &str, value: &str| {
        let pairs = [("LAYOUTS_MY_OLD_LAYOUT", "time:63"), (key, value)];
        let environment = pairs.map(|(key, value)| (format!("RAINDROP_{key}"), value.to_owned()));
        Config::load(&Inputs { environment: environment.into(), ..Inputs::default() })
    };
    let config = load("LAYOUTS_MY_OLD_EPOCH", "2016-09-20T00:00:00Z").expect("valid");
    assert_eq!(value_of(&config, "layouts.my_old.epoch").0, "2016-09-20T00:00:00Z");
    let error = load("LAYOUTS_MY_OLD_TIME_UNIT", "second").expect_err("not a key").to_string();
    assert_eq!(
        error,
        "layouts.my_old.time_unit (environment variable RAINDROP_LAYOUTS_MY_OLD_TIME_UNIT): unknown \
         key; known are layout, epoch"
    );
}
