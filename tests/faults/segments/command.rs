//! The command line in segment mode.

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
    assert_eq!((code, out.lines().count()), (Some(0), 1), "{out}{err}");
    let printed = |arguments: &[&str]| {
        let (code, out, err) = raindrop(arguments);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
        out
    };
    assert_eq!(printed(&["id", "order", "-n", "3"]), "ORD-1\nORD-2\nORD-3\n");
    assert_eq!(printed(&["id", "order", "--encoding", "base36"]), "ORD-4\n");
    assert_eq!(printed(&["id", "odd", "-n", "2", "--format", "json"]), "[\"1\",\"3\"]\n");
    let many = printed(&["id", "odd", "-n", "2500"]);
    assert_eq!(many.lines().last(), Some("5003"));
    let codes = printed(&["codes"]);
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = codes.lines().map(cells).collect();
    assert_eq!(lines[0], ["NAMESPACE", "CODE", "NEXT", "LEFT", "STEP", "WRITTEN", "RATE"]);
    assert_eq!(lines[1][..4], ["n", "odd", "5005", "4503599627367994"], "{codes}");
    assert_eq!(lines[2][..3], ["n", "order", "5"], "{codes}");
    let rated = printed(&["codes", "--rate-over", "50ms"]);
    assert!(rated.lines().skip(1).all(|line| line.ends_with(" 0.0/s")), "{rated}");

    for (arguments, said) in [
        (&["id", "other", "--namespace", "n"][..], "\"other\" is not among the configured codes"),
        (&["id", "order", "--encoding", "friendly"], "friendly needs a layout"),
        (&["parse", "ORD-4"], "namespace \"n\" is in segment mode"),
        (&["workers", "--namespace", "n", "release", "1"], "namespace \"n\" is in segment mode"),
        (&["codes", "--rate-over", "5"], "a duration with its unit"),
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
