//! Segment namespaces.

use std::time::Duration;

use super::{namespaces::refused, *};
use crate::core::{id::Id, issue::ClaimError, segment::SegmentSpec};

#[test]
fn codes_that_are_not_listed_are_explained_where_some_count() {
    let load = |text: &str| load(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let numbers = "[namespaces.numbers]\nmode = 'segment'\ncodes.allow = ['a']\n";
    let note = load(numbers).notes.pop().expect("default takes them");
    assert!(note.contains("namespace \"default\"") && note.contains("[\"numbers\"]"), "{note}");
    for text in [
        "",
        "[namespaces.web]\nlayout.preset = 'js-safe'\n",
        // Every namespace refuses codes that are not listed.
        &format!("codes.allow = ['b']\n{numbers}"),
        &format!("mode = 'segment'\ncodes.allow = ['b']\n{numbers}"),
    ] {
        assert!(load(text).notes.is_empty(), "{text}");
    }
}

#[test]
fn what_codes_share_is_noted_where_it_is_not_expected() {
    let notes = |text: &str| load(text).unwrap_or_else(|error| panic!("{text}: {error}")).notes;
    let by_code = notes("[namespaces.web]\ncodes.shared = false\ncodes.max = 5\n");
    assert_eq!(by_code.len(), 1, "{by_code:?}");
    assert!(by_code[0].starts_with("namespace web: codes.shared = false"), "{by_code:?}");
    let useless = notes("codes.max_per_client = 5\n[namespaces.web]\ncodes.shared = false\n");
    assert!(useless.len() == 2 && useless[0].ends_with("(codes.shared = true)"), "{useless:?}");
    assert!(useless[0].starts_with("namespace default: codes.max_per_client = 5"), "{useless:?}");
    let numbers = "[namespaces.numbers]\nmode = 'segment'\ncodes.allow = ['a']\n";
    let numbers = load(&format!("codes.allow = ['b']\n{numbers}")).expect("valid");
    let shown = |key: &str| numbers.effective.iter().any(|setting| setting.key == key);
    assert!(!shown("namespaces.numbers.codes.shared"));
    assert_eq!(value_of(&numbers, "codes.shared").0, "true");
}

#[test]
fn a_segment_namespace_has_the_codes_bound_to_it() {
    let config = load(
        "[segment]\nmin_step = 50\ntarget_duration = '2m'\n[issue]\nmax_wait = '2s'\n\
         [namespaces.a]\nmode = 'segment'\nsegment.max_step = 5_000\n\
         [[code]]\nname = 'order'\nnamespace = 'a'\nstart = 100\nincrement = 2\nremainder = 1\n\
         failover_gap = 0\n\
         [[code]]\nname = 'web'\nnamespace = 'a'\nprefix = 'W-'\nmin_step = 7\njs_safe = true\n\
         [[code]]\nname = 'user'\n",
    )
    .expect("valid");
    let segments: Vec<&SegmentSettings> = config.segments().collect();
    let [a] = segments[..] else { panic!("{segments:?}") };
    assert_eq!((a.namespace.as_str(), a.codes_max, a.auto_create), ("a", 100_000, None));
    let times = (a.target_duration, a.max_wait);
    assert_eq!(times, (Duration::from_mins(2), Duration::from_secs(2)));
    let steps = SegmentSpec { min_step: 50, max_step: 5_000, ..SegmentSpec::default() };
    let failover_gap = Some(0);
    let order = SegmentSpec { start: 100, increment: 2, remainder: 1, failover_gap, ..steps };
    let web = SegmentSpec { min_step: 7, max: Id::MAX_JS_SAFE.get(), ..steps };
    assert_eq!(a.codes, [("order".into(), order), ("web".into(), web)].into());
    assert_eq!(config.codes.locate("web", None).map(|located| located.namespace), Ok("a"));
    assert_eq!(config.keepers().count(), 1);

    let file = |key| value_of(&config, key).1.ends_with("raindrop.toml");
    assert_eq!(value_of(&config, "namespaces.a.mode").0, "segment");
    assert_eq!(value_of(&config, "namespaces.a.segment.min_step").0, "50");
    assert_eq!(value_of(&config, "[[code]] order: max_step").0, "5000");
    assert_eq!(value_of(&config, "[[code]] web: js_safe").0, "true");
    assert_eq!(value_of(&config, "[[code]] order: failover_gap").0, "0");
    assert!(file("[[code]] order: max_step") && file("[[code]] order: start"));
    assert_eq!(value_of(&config, "[[code]] web: start"), ("1".into(), "default".into()));
    let shown = |start: &str| config.effective.iter().any(|setting| setting.key.starts_with(start));
    for other in ["layout", "worker", "lease", "rollback", "issue.borrow_ahead"] {
        assert!(!shown(&format!("namespaces.a.{other}")), "{other}");
    }
    assert!(!shown("[[code]] user: start"));
}

#[test]
fn a_form_of_texts_excludes_a_prefix_and_an_encoding() {
    let entry = |settings: &str| {
        format!("[namespaces.a]\nmode = 'segment'\n[[code]]\nname = 'invoice'\n{settings}")
    };
    let in_a = |settings: &str| entry(&format!("namespace = 'a'\n{settings}"));
    let config = load(&in_a("text = 'INV/{n:06}'\n")).expect("valid");
    let text = config.segments().next().expect("one").codes["invoice"].text;
    assert_eq!(text.map(|text| text.to_string()).as_deref(), Some("INV/{n:06}"));
    assert_eq!(value_of(&config, "[[code]] invoice: text").0, "INV/{n:06}");
    assert_eq!(config.equal_texts, []);
    for (settings, said) in [
        ("text = 'INV/{n:06}'\nprefix = 'INV-'\n", "must be left out beside text"),
        ("text = 'INV/{n:06}'\nencoding = 'hex'\n", "must be left out beside text"),
        ("text = 'INV {n}'\n", "must be at most 64 characters: A-Z a-z 0-9 . _ : / - and one {n}"),
    ] {
        let found = refused(&in_a(settings));
        assert!(found.len() == 1 && found[0].contains(said), "{found:?}");
    }
    let found = refused(&entry("text = '{n}'\n"));
    assert!(found[0].contains("not in segment mode"), "{found:?}");
}

#[test]
fn codes_that_may_issue_equal_texts_are_noted() {
    let notes = |one: &str, two: &str| {
        let code =
            |name, setting| format!("[[code]]\nname = '{name}'\nnamespace = 'a'\n{setting}\n");
        let text =
            format!("[namespaces.a]\nmode = 'segment'\n{}{}", code("b", one), code("c", two));
        let found = load(&text).expect("valid").equal_texts;
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = notes("text = 'INV-{n}'", "text = 'INV-1{n:02}'");
    let expected = "codes b and c may issue equal texts, as INV-{n} and INV-1{n:02}: numbers are \
                    unique for each code only";
    assert_eq!(found, [expected]);
    assert_eq!(notes("prefix = 'INV-'", "text = 'INV-{n}'").len(), 1);
    assert!(notes("text = 'INV-{n}'", "text = 'CR-{n}'").is_empty());
    assert!(notes("prefix = 'INV-'", "prefix = 'INV-'").is_empty());
    let longest_first = notes("text = 'A{n}/7'", "text = 'A1/{n}'");
    assert!(longest_first.len() == 1 && longest_first[0].contains("as A{n}/7 and A1/{n}: "));
}

#[test]
fn series_has_the_settings_of_its_entry() {
    let config = load(
        "[namespaces.a]\nmode = 'segment'\ncodes.allow = ['invoice:*', 'invoice:paris', 'order']\n\
         [[code]]\nname = 'invoice:*'\nnamespace = 'a'\ntext = 'INV-{*}-{n:06}'\nstart = 7\n\
         strict = true\nfailover_gap = 0\n",
    )
    .expect("valid");
    assert_eq!(config.equal_texts, []);
    let settings = config.segments().next().expect("one");
    let spec = settings.series["invoice"];
    assert_eq!((spec.start, spec.strict, spec.failover_gap), (7, true, Some(0)));
    assert_eq!(spec.text.map(|text| text.to_string()).as_deref(), Some("INV-{*}-{n:06}"));
    assert_eq!(value_of(&config, "[[code]] invoice:*: text").0, "INV-{*}-{n:06}");
    // A listed member is created on demand, too.
    assert_eq!(settings.codes.keys().collect::<Vec<_>>(), ["order"]);
    let text = settings.on_demand("invoice:paris").expect("a member").text;
    assert_eq!(text.map(|text| text.to_string()).as_deref(), Some("INV-paris-{n:06}"));
    for code in ["invoice", "invoice:saint-denis", "other:paris"] {
        assert_eq!(settings.on_demand(code), Err(ClaimError::UnknownCode(code.into())));
    }
    let long = format!("invoice:{}", "x".repeat(54));
    assert!(settings.on_demand(&long[..long.len() - 1]).is_ok());
    let error = settings.on_demand(&long).expect_err("too long").to_string();
    assert!(error.contains("too long for its texts, whose form may have 64 characters"), "{error}");
    assert_eq!(config.codes.locate("invoice:paris", None).expect("bound").namespace, "a");
}

#[test]
fn members_that_write_equal_texts_are_noted() {
    let notes = |text: &str, other: &str| {
        let entry =
            |name, text| format!("[[code]]\nname = '{name}'\nnamespace = 'a'\ntext = '{text}'\n");
        let [one, two] = [entry("invoice:*", text), entry("credit:*", other)];
        let found = load(&format!("[namespaces.a]\nmode = 'segment'\n{one}{two}"));
        let found = found.expect("valid").equal_texts;
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        notes("INV-{n:06}", "CR-{*}-{n}"),
        ["codes invoice:* may issue equal texts, as INV-{n:06}: numbers are unique for each code \
          only"]
    );
    assert!(notes("INV-{*}-{n:06}", "CR-{*}-{n}").is_empty());
    assert_eq!(notes("{*}-{n:06}", "CR-{n}").len(), 2, "CR is a member's name; and the series CR");
}

#[test]
fn bad_series_are_refused() {
    let entry = |name: &str, setting: &str| {
        format!("[namespaces.a]\nmode = 'segment'\n[[code]]\nname = '{name}'\n{setting}\n")
    };
    for (file, said) in [
        (entry("invoice:*", ""), "not a series: namespace \"default\" is not in segment mode"),
        (entry("invoice*", "namespace = 'a'"), "or a series such as invoice:*"),
        (entry("invoice:*:*", "namespace = 'a'"), "or a series such as invoice:*"),
        (entry("*", "namespace = 'a'"), "or a series such as invoice:*"),
        (entry("invoice", "namespace = 'a'\ntext = 'INV-{*}-{n}'"), "must be without {*}"),
        (entry("i:*", "namespace = 'a'\ntext = 'INV{*}-{n}'"), "{*} between separators"),
        (entry("i:*", "namespace = 'a'\nstrict = true"), "must be given with strict"),
        (
            entry("i:*", "namespace = 'a'\ntext = 'I-{*}-{n}'\nprefix = 'I-'"),
            "must be left out beside text",
        ),
        (
            "[namespaces.a]\nmode = 'segment'\ncodes.allow = ['invoice:*']\n".to_owned(),
            "must be without \"invoice:*\": a series needs a [[code]] entry",
        ),
        ("codes.allow = ['invoice:*']\n".to_owned(), "without \"invoice:*\""),
    ] {
        let found = refused(&file);
        assert!(found.len() == 1 && found[0].contains(said), "{file}: {found:?}");
    }
}

#[test]
fn codes_of_one_form_are_noted_once() {
    let notes = |count: usize, text: fn(usize) -> String| {
        let mut file = "[namespaces.a]\nmode = 'segment'\n".to_owned();
        for index in 0..count {
            let text = text(index);
            file += &format!("[[code]]\nname = 'c{index:04}'\nnamespace = 'a'\ntext = '{text}'\n");
        }
        let found = load(&file).expect("valid").equal_texts;
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let of_one_form = notes(2_000, |_| "INV-{n:06}".into());
    assert_eq!(
        of_one_form,
        ["codes c0000, c0001, c0002 and 1997 more may issue equal texts, as INV-{n:06}: numbers \
          are unique for each code only"]
    );
    assert_eq!(notes(2_000, |code| format!("{{n}}/T{code:04}")), Vec::<String>::new());
    // Two forms of many codes, and their common texts: a note for each form.
    let of_two = notes(100, |code| format!("{}{{n}}", ["R-", "R-1"][code % 2]));
    assert_eq!(of_two.len(), 2, "{of_two:?}");
    assert!(of_two[0].contains("c0000, c0001, c0002 and 97 more"), "{of_two:?}");
    assert!(of_two[0].contains("as R-{n} and R-1{n}: "), "{of_two:?}");
    assert!(of_two[1].contains("c0001, c0003, c0005 and 47 more"), "{of_two:?}");
    let padded = notes(20, |code| format!("9{{n:0{}}}", code % 10 + 2));
    assert_eq!(padded.len(), 1, "padding makes no other form: {padded:?}");
}

#[test]
fn gap_after_a_fail_over_is_given_or_depends_on_blocks() {
    let gap = |text: &str| {
        let config = load(&format!("{text}[namespaces.a]\nmode = 'segment'\n")).expect("valid");
        let settings = config.segments().next().expect("one");
        (settings.failover_gap, settings.largest_claim)
    };
    assert_eq!(gap(""), (None, 10_000));
    assert_eq!(gap("[segment]\nfailover_gap = 0\n"), (Some(0), 10_000));
    assert_eq!(gap("[segment]\nfailover_gap = 5_000\n"), (Some(5_000), 10_000));
    assert_eq!(gap("[http]\nmax_batch = 20_000\n"), (None, 20_000));
    let too_large = format!("[segment]\nfailover_gap = '{}'\n", SegmentSpec::LARGEST_NUMBER + 1);
    for text in ["[segment]\nfailover_gap = '-1'\n", "[segment]\nfailover_gap = '5k'\n", &too_large]
    {
        let found = refused(text);
        assert!(found[0].ends_with("must be 0 to 9223372036854775806"), "{found:?}");
    }
}

#[test]
fn default_may_be_a_segment_namespace_without_a_file() {
    let config = Config::load(&environment(&[
        ("mode", "segment"),
        ("codes.allow", "order,user"),
        ("worker.max_id", "9"),
    ]))
    .expect("valid");
    let codes: Vec<&String> = config.segments().flat_map(|of| of.codes.keys()).collect();
    assert_eq!(codes, ["order", "user"]);
    assert!(keeper_of(&config, "default").is_none());
    assert_eq!(value_of(&config, "worker.max_id").0, "9");
    assert!(config.effective.iter().all(|setting| !setting.key.starts_with("layout.")));

    let on_demand = [("mode", "segment"), ("segment.auto_create", "true")];
    let config = Config::load(&environment(&on_demand)).expect("valid");
    let made = |config: &Config| config.segments().next().expect("one").auto_create;
    assert_eq!(made(&config), Some(SegmentSpec::default()));
    // With `codes.allow`, no code is created on demand.
    let allowed =
        Config::load(&environment(&[on_demand.as_slice(), &[("codes.allow", "a")]].concat()));
    assert_eq!(made(&allowed.expect("valid")), None);
}

#[test]
fn an_entry_binds_an_allowed_code_to_its_namespace() {
    let config = load(
        "[codes]\nallow = ['a', 'b']\n[namespaces.n]\nmode = 'segment'\n\
         [[code]]\nname = 'a'\n[[code]]\nname = 'b'\nnamespace = 'n'\n",
    )
    .expect("valid");
    let codes: Vec<&String> = config.segments().flat_map(|of| of.codes.keys()).collect();
    assert_eq!(codes, ["b"]);
}

#[test]
fn keys_that_a_mode_does_not_use_are_refused() {
    let unused = "must be left out: mode = segment does not use it";
    assert_eq!(
        refused(
            "[segment]\nmin_step = 0\ntarget_duration = 60\n[codes]\nshared = true\n\
             [namespaces.a]\nmode = 'segment'\ncodes.shared = true\nlayout.preset = 'js-safe'\nworker.id = 1\n\
             lease.ttl = '2m'\nrollback.hold = '2s'\nissue.borrow_ahead = '1s'\ncodes.allow = ['x']\n\
             [namespaces.b]\nsegment.min_step = 5\n\
             [namespaces.c]\nmode = 'segment'\nsegment.min_step = 10\nsegment.max_step = 9\n\
             codes = { shared = false, max = 1, allow = ['p', 'q'] }\n\
             [namespaces.d]\nmode = 'segment'\ncodes.shared = false\n",
        ),
        [
            "namespaces.a.codes.shared = true (file): must be false with mode = segment: each code has numbers of its own".to_owned(),
            format!("namespaces.a.issue.borrow_ahead = 1s (file): {unused}"),
            format!("namespaces.a.layout.preset = js-safe (file): {unused}"),
            format!("namespaces.a.lease.ttl = 2m (file): {unused}"),
            format!("namespaces.a.rollback.hold = 2s (file): {unused}"),
            format!("namespaces.a.worker.id = 1 (file): {unused}"),
            "namespaces.b.segment.min_step = 5 (file): must be left out: mode = snowflake does not use it".into(),
            "namespaces.c.codes.max = 1 (file): must be at least 2, the number of listed codes".into(),
            "namespaces.c.segment.max_step = 9 (file): must be at least segment.min_step (10, file)".into(),
            "segment.min_step = 0 (file): must be 1 to 4294967296".into(),
            "segment.target_duration = 60 (file): must be a duration with its unit such as 500ms, 5m or 1h30m, 1s to 24h".into(),
        ]
    );
    let found = problems(&environment(&[
        ("mode", "segment"),
        ("layout.preset", "js-safe"),
        ("codes.allow", "a"),
    ]));
    assert!(found.len() == 1 && found[0].starts_with("layout.preset = js-safe"), "{found:?}");
    let found = problems(&environment(&[
        ("mode", "segment"),
        ("codes.allow", "a"),
        ("store.url", "memory:"),
    ]));
    assert!(found.len() == 1 && found[0].contains("with mode = segment for default"), "{found:?}");
    let found = problems(&environment(&[
        ("mode", "segment"),
        ("codes.allow", "a"),
        ("http.request_timeout", "1s"),
    ]));
    assert!(found.len() == 1 && found[0].starts_with("issue.max_wait = 1s (default)"), "{found:?}");
}

#[test]
fn bad_settings_of_codes_are_refused() {
    assert_eq!(
        refused(
            "[namespaces.n]\nmode = 'segment'\n\
             [[code]]\nname = 'a'\nnamespace = 'n'\nstart = '-1'\nmin_step = 2_000_000\njs_safe = 1\n\
             [[code]]\nname = 'b'\nnamespace = 'n'\nincrement = 2\nremainder = 2\n\
             [[code]]\nname = 'c'\nnamespace = 'n'\nstart = 9007199254740992\njs_safe = true\n\
             [[code]]\nname = 'd'\njs_safe = true\n\
             [[code]]\nname = 'e'\nnamespace = 'n'\njs_safe = true\nfailover_gap = 9007199254740991\n\
             [[code]]\nname = 'f'\nnamespace = 'n'\nfailover_gap = '5k'\n\
             [[code]]\nname = 'g'\nfailover_gap = 0\n",
        ),
        [
            "[[code]] a: js_safe = 1 (file): must be true or false",
            "[[code]] a: max_step = 1000000 (file): must be 2000000 (min_step) to 4294967296",
            "[[code]] a: start = -1 (file): must be a whole number",
            "[[code]] b: remainder = 2 (file): must be below 2 (increment)",
            "[[code]] c: start = 9007199254740992 (file): must be 0 to 9007199254740991",
            "[[code]] d: js_safe = true (file): must be left out: namespace \"default\" is not in segment mode",
            "[[code]] e: failover_gap = 9007199254740991 (file): must be below 9007199254740991, the count of the code's numbers",
            "[[code]] f: failover_gap = 5k (file): must be a whole number",
            "[[code]] g: failover_gap = 0 (file): must be left out: namespace \"default\" is not in segment mode",
        ]
    );
}
