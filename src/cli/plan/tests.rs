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

fn planned(flags: &[&str]) -> Result<Plan, Failure> {
    super::plan(Overrides::default(), read(flags).flags)
}

fn plan(flags: &[&str]) -> Plan {
    planned(flags).expect("a valid layout")
}

fn coloured(flags: &[&str]) -> String {
    let now_ms = parse_unix_ms("2026-11-20T12:00:00Z").expect("an instant");
    text::render(&plan(flags), now_ms)
}

fn text(flags: &[&str]) -> String {
    strip_str(&coloured(flags)).to_string()
}

fn json(flags: &[&str]) -> String {
    serde_json::to_string_pretty(&plan(flags)).expect("JSON") + "\n"
}

/// Compares with a file of `golden/`; `GOLDEN=write` writes the file, for review.
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
fn plans_as_text_equal_the_golden_files() {
    let named =
        ["raindrop", "js-safe", "twitter", "lingdu", "westid-qr", "yitter", "node", "sonyflake"];
    for preset in named {
        assert_golden(&format!("{preset}.txt"), &text(&["--preset", preset]));
    }
    let hours = ["--time-unit", "hour", "--data-center-bits", "3", "--reserved-bits", "2"];
    assert_golden("hours.txt", &text(&hours));
}

#[test]
fn plans_as_json_equal_the_golden_files() {
    for preset in ["raindrop", "westid-qr"] {
        assert_golden(&format!("{preset}.json"), &json(&["--preset", preset]));
    }
    assert_golden("days.json", &json(&["--time-unit", "5", "--rollback-bits", "0"]));
}

#[test]
fn every_picture_fits_in_80_columns() {
    for preset in crate::core::preset::Preset::ALL {
        let flags = ["--preset", preset.name()];
        let plain = text(&flags);
        let picture = plain.lines().filter(|line| line.contains(['┌', '│', '└']));
        let widths: Vec<usize> = picture.map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 4, "{plain}");
        assert!(widths.iter().all(|width| *width == widths[0] && *width <= 78), "{plain}");
        assert!(plain.lines().all(|line| line == line.trim_end()), "{plain}");
        assert!(coloured(&flags).contains("\u{1b}["));
    }
}

#[test]
fn bad_flags_are_named() {
    let refused = |flags: &[&str]| match planned(flags) {
        Err(Failure::Problems(text)) => text,
        other => panic!("{flags:?}: {other:?}"),
    };
    assert_eq!(
        refused(&["--worker-bits", "2", "--timestamp-bits", "40"]),
        "the configuration cannot be used:\n\
         layout.timestamp_bits = 40 (--timestamp-bits): must be 41 to 55 with time_unit millisecond\n\
         layout.worker_bits = 2 (--worker-bits): must be 3 to 16"
    );
    for flags in [
        ["--preset", "other"].as_slice(),
        &["--preset", "node", "--worker-bits", "4"],
        &["--time-unit", "fortnight"],
        &["--epoch", "2025-01-01"],
    ] {
        assert!(refused(flags).contains(&format!("({})", flags[flags.len() - 2])), "{flags:?}");
    }
}
