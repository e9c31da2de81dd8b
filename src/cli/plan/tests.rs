use clap::Parser;

use super::*;
use crate::core::instant::parse_unix_ms;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    plan: PlanArguments,
}

fn read(flags: &[&str]) -> PlanArguments {
    let arguments = ["plan"].into_iter().chain(flags.iter().copied());
    Arguments::try_parse_from(arguments).expect("flags of the command").plan
}

fn plan(flags: &[&str]) -> Plan {
    let never_loaded = || panic!("flags need no configuration");
    Plan::of(&read(flags).layout.choose(never_loaded).expect("a valid layout"))
}

fn text(flags: &[&str], style: Style) -> String {
    let now_ms = parse_unix_ms("2026-11-20T12:00:00Z").expect("an instant");
    text::render(&plan(flags), style, now_ms)
}

/// Compares with a file of `golden/`; `GOLDEN=write` writes it anew, to be read before it is kept.
fn assert_golden(name: &str, text: &str) {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/plan/golden").join(name);
    if std::env::var_os("GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, text).expect("written");
    }
    let golden = std::fs::read_to_string(&path).expect("a golden file");
    assert_eq!(text, golden, "{name}");
}

#[test]
fn pictures_and_facts() {
    for preset in ["raindrop", "js-safe", "twitter", "lingdu", "westid-qr", "yitter", "node"] {
        assert_golden(&format!("{preset}.txt"), &text(&["--preset", preset], Style::Plain));
    }
    let hours = ["--time-unit", "hour", "--data-center-bits", "3", "--reserved-bits", "2"];
    assert_golden("hours.txt", &text(&hours, Style::Plain));
}

#[test]
fn documents() {
    for preset in ["raindrop", "westid-qr"] {
        assert_golden(&format!("{preset}.json"), &json::render(&plan(&["--preset", preset])));
    }
    assert_golden("days.json", &json::render(&plan(&["--time-unit", "5", "--rollback-bits", "0"])));
}

#[test]
fn every_picture_fits_in_80_columns_and_only_colours_differ() {
    for preset in crate::core::preset::Preset::ALL {
        let flags = ["--preset", preset.name()];
        let plain = text(&flags, Style::Plain);
        let picture = plain.lines().filter(|line| line.contains(['┌', '│', '└']));
        let widths: Vec<usize> = picture.map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 4, "{plain}");
        assert!(widths.iter().all(|width| *width == widths[0] && *width <= 78), "{plain}");

        let coloured = text(&flags, Style::Coloured);
        let mut stripped = String::new();
        for (index, part) in coloured.split('\u{1b}').enumerate() {
            let code_end = if index == 0 { 0 } else { part.find('m').expect("a colour") + 1 };
            stripped.push_str(&part[code_end..]);
        }
        let trimmed: Vec<&str> = stripped.lines().map(str::trim_end).collect();
        assert_eq!(trimmed, plain.lines().collect::<Vec<_>>());
        assert!(coloured.contains("\u{1b}["));
    }
}

#[test]
fn bad_flags_are_named() {
    let never_loaded = || panic!("flags need no configuration");
    let refused = read(&["--worker-bits", "2", "--timestamp-bits", "40"]).layout;
    let Err(Failure::Usage(text)) = refused.choose(never_loaded) else { panic!("it is refused") };
    assert_eq!(
        text,
        "--timestamp-bits = 40: must be 41 to 55 with time_unit millisecond\n\
         --worker-bits = 2: must be 3 to 10"
    );
    for flags in [
        ["--preset", "other", "--json"].as_slice(),
        &["--preset", "node", "--worker-bits", "4"],
        &["--time-unit", "fortnight"],
        &["--epoch", "2025-01-01"],
    ] {
        let arguments = ["plan"].into_iter().chain(flags.iter().copied());
        assert!(Arguments::try_parse_from(arguments).is_err(), "{flags:?}");
    }
}
