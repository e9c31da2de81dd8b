//! Tests the command line in segment mode.

use crate::service::run;

#[test]
fn the_command_line_counts_too_and_gives_back_what_it_did_not_need() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = "[namespaces.n]\nmode = 'segment'\n\
                [[code]]\nname = 'order'\nnamespace = 'n'\nprefix = 'ORD-'\n\
                [[code]]\nname = 'odd'\nnamespace = 'n'\nincrement = 2\nremainder = 1\njs_safe = true\n";
    std::fs::write(folder.path().join("raindrop.toml"), file).expect("written");
    let raindrop = |arguments: &[&str]| {
        run(&[&["--config", "raindrop.toml"], arguments].concat(), &[], folder.path())
    };
    let (code, out, err) = raindrop(&["codes"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "no empty table");
    assert_eq!(err, "raindrop: the store has no segment codes\n");
    assert_eq!(raindrop(&["codes", "--json"]).1, "{\n  \"codes\": []\n}\n");
    let (code, out, err) = raindrop(&["id", "order", "-n", "3"]);
    assert_eq!((code, out.as_str()), (Some(0), "ORD-1\nORD-2\nORD-3\n"), "{err}");
    let printed = |arguments: &[&str]| {
        let (code, out, err) = raindrop(arguments);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
        out
    };
    assert_eq!(printed(&["id", "order", "--encoding", "base36"]), "ORD-4\n");
    assert_eq!(printed(&["id", "odd", "-n", "2", "--format", "json"]), "[\"1\",\"3\"]\n");
    let many = printed(&["id", "odd", "-n", "2500"]);
    assert_eq!(many.lines().last(), Some("5003"));
    let codes = printed(&["codes"]);
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = codes.lines().map(cells).collect();
    assert_eq!(lines[0], ["NAMESPACE", "CODE", "KIND", "NEXT", "LEFT", "STEP", "WRITTEN", "RATE"]);
    assert_eq!(lines[1][..5], ["n", "odd", "configured", "5005", "4503599627367994"], "{codes}");
    assert_eq!(lines[2][..4], ["n", "order", "configured", "5"], "{codes}");
    let rated = printed(&["codes", "--rate-over", "50ms"]);
    assert!(rated.lines().skip(1).all(|line| line.ends_with(" 0.0/s")), "{rated}");
    let json = printed(&["codes", "--json", "--rate-over", "50ms"]);
    let document: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let order = &document["codes"][1];
    assert_eq!((&order["code"], &order["next"]), (&"order".into(), &"5".into()), "{json}");
    assert_eq!((&order["rate"], &order["in_hand"]), (&0.0.into(), &serde_json::Value::Null));

    for (arguments, said) in [
        (&["id", "other", "--namespace", "n"][..], "\"other\" is not among the configured codes"),
        (&["id", "order", "--encoding", "friendly"], "friendly needs a layout"),
        (&["parse", "ORD-4"], "namespace \"n\" is in segment mode"),
        (&["workers", "--namespace", "n", "release", "1"], "namespace \"n\" is in segment mode"),
        (&["codes", "--rate-over", "5"], "a duration with its unit"),
        (&["codes", "--rate-over", "5s", "retire", "order"], "--rate-over: must be left out"),
    ] {
        let (code, _, err) = raindrop(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
        assert!(err.contains(said), "{arguments:?}: {err}");
    }
    let counting = [("RAINDROP__MODE", "segment"), ("RAINDROP__CODES__ALLOW", "a")];
    let (code, _, err) = run(&["plan"], &counting, folder.path());
    assert!(code == Some(2) && err.contains("segment mode"), "{err}");
    assert_eq!(run(&["plan", "--preset", "yitter"], &counting, folder.path()).0, Some(0));
    assert_eq!(run(&["workers"], &counting, folder.path()).0, Some(0));
    let (code, _, err) =
        run(&["id", "a"], &[("RAINDROP__NAMESPACES__N__LAYOUT__PRESET", "twitter")], folder.path());
    assert_eq!(code, Some(0), "{err}");
    let other_mode = [("RAINDROP__NAMESPACES__N__LAYOUT__PRESET", "twitter")];
    let (code, _, err) = run(&["id", "a", "--namespace", "n"], &other_mode, folder.path());
    assert!(code == Some(2) && err.contains("`mode=segment table="), "{err}");
}

#[test]
fn texts_of_codes_are_parsed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = "[namespaces.n]\nmode = 'segment'\n\
                  [[code]]\nname = 'invoice'\nnamespace = 'n'\ntext = 'INV-{n:06}'\n\
                  [[code]]\nname = 'plain'\nnamespace = 'n'\n";
    std::fs::write(folder.path().join("raindrop.toml"), config).expect("written");
    let raindrop = |arguments: &[&str]| {
        run(&[&["--config", "raindrop.toml"], arguments].concat(), &[], folder.path())
    };
    let of_invoice =
        "{\n  \"code\": \"invoice\",\n  \"namespace\": \"n\",\n  \"number\": \"17\"\n}\n";
    for text in ["INV-000017", "INV-17"] {
        let parsed = raindrop(&["parse", text, "--code", "invoice"]);
        assert_eq!(parsed, (Some(0), of_invoice.to_owned(), String::new()), "{text}");
    }
    let file = folder.path().join("raindrop.db");
    assert!(!file.exists(), "the store is not needed for a code of the configuration");
    let (code, out, err) =
        raindrop(&["parse", "INV-1", "INV-x", "INV-2", "--code", "invoice", "--namespace", "n"]);
    let numbers = "{\"code\":\"invoice\",\"namespace\":\"n\",\"number\":\"1\"}\n\
                   {\"code\":\"invoice\",\"namespace\":\"n\",\"number\":\"2\"}\n";
    assert_eq!((code, out.as_str()), (Some(2), numbers), "{err}");
    assert!(err.contains("\"INV-x\" is not of the form INV-{n:06}"), "{err}");

    let managed = ["parse", "R/0014", "--code", "receipt", "--namespace", "n"];
    let (code, _, err) = raindrop(&managed);
    assert!(code == Some(2) && err.contains("\"receipt\" of namespace \"n\" has no"), "{err}");
    let options = ["--text", "R/{n:04}", "--increment", "10", "--remainder", "4"];
    let (code, _, err) = raindrop(&[&["codes", "create", "receipt"], &options[..]].concat());
    assert_eq!(code, Some(0), "{err}");
    let (code, out, err) = raindrop(&managed);
    assert!(code == Some(0) && out.contains("\"number\": \"14\""), "{out}{err}");
    for (arguments, said) in [
        (&["INV-1", "--code", "receipt", "--namespace", "n"][..], "is not of the form R/{n:04}"),
        (&["R/0015", "--code", "receipt", "--namespace", "n"], "leave 4 (remainder)"),
        (&["R/0014", "--code", "receipt"], "a managed code of another namespace needs --namespace"),
        (&["1", "--code", "plain"], "code \"plain\" of namespace \"n\" has no setting text"),
        (&["1", "--code", "invoice", "--namespace", "default"], "belongs to namespace \"n\""),
        (&["1", "--code", "a b"], "must match"),
        (&["1", "--code", "invoice", "--layout", "twitter"], "cannot be used with"),
        (&["1", "--code", "invoice", "--encoding", "hex"], "cannot be used with"),
    ] {
        let (code, _, err) = raindrop(&[&["parse"], arguments].concat());
        assert!(code == Some(2) && err.contains(said), "{arguments:?}: {err}");
    }
}

#[test]
fn codes_are_created_set_and_retired_from_the_command_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = "[namespaces.n]\nmode = 'segment'\n[[code]]\nname = 'fixed'\nnamespace = 'n'\n";
    std::fs::write(folder.path().join("raindrop.toml"), config).expect("written");
    let raindrop = |arguments: &[&str]| {
        run(&[&["--config", "raindrop.toml"], arguments].concat(), &[], folder.path())
    };
    let (code, out, err) = raindrop(&["codes", "create", "order", "--start", "100", "--js-safe"]);
    assert!(code == Some(0) && err.starts_with("raindrop: created the store /"), "{out}{err}");
    assert!(out.starts_with("n order: the next number is 100, start=100 "), "{out}");
    assert!(out.contains(" max=9007199254740991"), "{out}");
    assert_eq!(raindrop(&["id", "order", "--namespace", "n", "-n", "2"]).1, "100\n101\n");
    let (code, out, _) = raindrop(&["codes", "set", "order", "--max", "500", "--min-step", "5"]);
    assert!(code == Some(0) && out.contains("min_step=5 ") && out.contains("max=500"), "{out}");
    let (code, out, err) = raindrop(&["codes", "raise", "--by", "8", "order", "--yes"]);
    assert!(code == Some(0) && out.ends_with("\nn order: the next number is 110\n"), "{out}{err}");
    for (arguments, status, said) in [
        (&["codes", "create", "order"][..], 2, "exists already"),
        (&["codes", "create", "fixed"], 2, "in the configuration"),
        (&["codes", "create", "a b"], 2, "must match"),
        (&["codes", "create", "new", "--min-step", "0"], 2, "min_step = 0"),
        (&["codes", "set", "fixed", "--max", "50"], 2, "in the configuration"),
        (&["codes", "retire", "fixed", "--dry-run"], 2, "in the configuration"),
        (&["codes", "retire", "other", "--dry-run"], 2, "not managed"),
        (&["codes", "set", "order"], 2, "at least one setting"),
        (&["codes", "set", "order", "--increment", "2"], 2, "increment"),
        (&["codes", "set", "order", "--max", "105"], 2, "at least 109"),
        (&["codes", "set", "other", "--max", "50"], 2, "not managed"),
        (&["codes", "create", "new", "--namespace", "nope"], 2, "\"nope\" does not exist"),
        (&["codes", "create", "new", "--namespace", "default"], 2, "not in segment mode"),
        (&["codes", "--namespace", "nope"], 2, "\"nope\" does not exist"),
        (
            &["codes", "raise", "--by", "1", "--namespace", "nope", "--yes"],
            2,
            "\"nope\" does not exist",
        ),
        (&["codes", "retire", "order"], 2, "--yes"),
        (&["codes", "raise", "--by", "8"], 2, "--yes"),
        (&["codes", "set", "order", "--start", "400"], 2, "--yes"),
        (&["codes", "set", "order", "--max", "105", "--dry-run"], 2, "at least 109"),
        (&["codes", "set", "order", "--start", "400", "--dry-run"], 0, ""),
        (&["codes", "raise", "--by", "8", "--dry-run"], 0, ""),
    ] {
        let (code, _, err) = raindrop(arguments);
        assert_eq!(code, Some(status), "{arguments:?}: {err}");
        assert!(err.contains(said), "{arguments:?}: {err}");
    }
    assert_eq!(raindrop(&["codes", "retire", "order", "--dry-run"]).0, Some(0));
    assert_eq!(raindrop(&["id", "order", "--namespace", "n"]).1, "110\n");
    assert_eq!(raindrop(&["codes", "retire", "order", "--yes"]).0, Some(0));
    let (code, out, err) = raindrop(&["id", "order", "--namespace", "n"]);
    assert!(code == Some(2) && err.contains("retired"), "{out}{err}");
    let listed = raindrop(&["codes"]).1;
    let line = listed.lines().find(|line| line.contains("order")).expect("listed");
    assert!(line.contains("retired"), "{listed}");
    // The command says so if no namespace is in segment mode.
    let (code, out, err) = run(&["codes"], &[], tempfile::tempdir().expect("a folder").path());
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert!(err.contains("no configured namespace is in segment mode"), "{err}");
}

/// A mistake must create no record of the namespace, which would fix its mode for good.
#[test]
fn mistakes_leave_no_trace_of_the_namespace() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let raindrop = |config: &str, arguments: &[&str]| {
        std::fs::write(folder.path().join("raindrop.toml"), config).expect("written");
        run(&[&["--config", "raindrop.toml"], arguments].concat(), &[], folder.path())
    };
    let counting = "[namespaces.n]\nmode = 'segment'\n[namespaces.m]\nmode = 'segment'\n";
    let bad = ["codes", "create", "order", "--max", "0", "--namespace", "n"];
    assert_eq!(raindrop(counting, &bad).0, Some(2));
    assert!(!folder.path().join("raindrop.db").exists());
    let good = ["codes", "create", "order", "--namespace", "n"];
    assert_eq!(raindrop(counting, &good).0, Some(0));
    for mistake in [
        &["codes", "retire", "typo", "--dry-run"][..],
        &["codes", "retire", "order", "--yes"],
        &["codes", "set", "order", "--max", "9"],
        &["codes", "create", "order", "--max", "0"],
        &["id", "order"],
    ] {
        let (code, _, err) = raindrop(counting, &[mistake, &["--namespace", "m"]].concat());
        assert_eq!(code, Some(2), "{mistake:?}: {err}");
    }
    let timed = "[namespaces.m]\nlayout.preset = 'js-safe'\n";
    let (code, _, err) = raindrop(timed, &["id", "order", "--namespace", "m"]);
    assert_eq!(code, Some(0), "{err}");
}

/// `raise` makes a restored store safe, so it must not stop at a code that cannot be raised.
#[test]
fn every_code_is_raised_that_can_be() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let raindrop =
        |arguments: &[&str]| run(arguments, &[("RAINDROP__MODE", "segment")], folder.path());
    for (code, start) in [("a", "1"), ("b", "1"), ("c", "9223372036854775000"), ("d", "1")] {
        let created = raindrop(&["codes", "create", code, "--start", start]);
        assert_eq!(created.0, Some(0), "{created:?}");
    }
    assert_eq!(raindrop(&["codes", "retire", "b", "--yes"]).0, Some(0));
    let (code, out, err) = raindrop(&["codes", "raise", "--by", "1000", "--yes"]);
    let said = "default a: the next number is 1001\ndefault b: has no numbers left\n\
                default d: the next number is 1001\n";
    assert!(code == Some(2) && out.ends_with(said), "{out}{err}");
    assert!(out.contains("default: raises 4 next numbers by 1000, for good"), "{out}");
    assert!(err.contains("cannot be raised by 1000") && err.contains("not raised: c"), "{err}");
}
