//! The plan for people.

use std::fmt::Write;

use jiff::SignedDuration;

use super::{
    facts::{Field, Part, Plan},
    picture,
    style::Style,
};
use crate::core::{
    instant::{YEAR_MS, far_year, format_unix_ms, format_unix_ms_short},
    layout::TimeUnit,
};

const HEADINGS: [&str; 5] = ["FIELD", "BITS", "PLACE", "VALUES", "USED UP"];
const DAY_MS: i64 = 86_400_000;

pub(super) fn render(plan: &Plan, style: Style, now_ms: i64) -> String {
    let mut lines = vec![headline(plan, style), String::new()];
    lines.extend(picture::lines(&plan.fields, style));
    lines.push(String::new());
    lines.extend(table(plan, style, now_ms));
    lines.push(String::new());
    for (name, fact) in facts(plan, now_ms) {
        lines.push(format!("{} {fact}", style.heading(&format!("{name:<13}"))));
    }
    if let Some(warning) = warning(plan, now_ms) {
        lines.push(String::new());
        lines.push(style.alarm(&warning));
    }
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{}", line.trim_end()).expect("a string takes any text");
    }
    text
}

fn headline(plan: &Plan, style: Style) -> String {
    let layout = &plan.layout;
    let name = style.heading(&format!("Layout {}", plan.title));
    let bits = layout.widths().total();
    let epoch = format_unix_ms_short(layout.epoch_ms());
    let line = format!("{name}: {bits} bits, a tick each {} from {epoch}", layout.unit());
    match plan.preset {
        Some(preset) => format!("{line}\n{}", style.faint(&wrapped(preset.describe(), 78))),
        None => line,
    }
}

/// Breaks a text into lines of at most this many columns.
fn wrapped(text: &str, columns: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

fn table(plan: &Plan, style: Style, now_ms: i64) -> Vec<String> {
    let row = |field: &Field| {
        let place = if field.high == field.low {
            field.high.to_string()
        } else {
            format!("{}-{}", field.high, field.low)
        };
        let [values, used_up] = told(plan, field, now_ms);
        [field.part.name().to_owned(), field.bits.to_string(), place, values, used_up]
    };
    let rows: Vec<[String; 5]> = plan.fields.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADINGS[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let padded = |[field, bits, place, values, used_up]: [&str; 5]| {
        let [a, b, c, d, _] = widths;
        (format!("{field:<a$}"), format!("  {bits:>b$}  {place:<c$}  {values:<d$}  {used_up}"))
    };
    let (first, rest) = padded(HEADINGS);
    let mut lines = vec![style.faint(&(first + &rest))];
    for (row, field) in rows.iter().zip(&plan.fields) {
        let (first, rest) = padded(row.each_ref().map(String::as_str));
        lines.push(style.part(field.part, &first) + &rest);
    }
    lines
}

/// A field's values, and what uses them up.
fn told(plan: &Plan, field: &Field, now_ms: i64) -> [String; 2] {
    let layout = &plan.layout;
    let all = format!("0 to {}", field.max());
    match field.part {
        Part::Unused => ["0".into(), "never".into()],
        Part::Timestamp => [all, timestamp_used_up(plan, now_ms)],
        Part::DataCenter => [all, format!("by {} data centres", plan.data_centers)],
        Part::Worker => [
            format!("{} to {}", plan.min_worker, plan.max_worker),
            format!("by {} nodes at a time", grouped(plan.nodes())),
        ],
        Part::Rollback => {
            let times = match layout.lanes() {
                2 => "twice".into(),
                lanes => format!("{lanes} times"),
            };
            [all, format!("by a clock that goes back {times} in {}", duration(plan.window_ms))]
        }
        Part::Sequence => [
            format!("{} to {}", layout.min_sequence(), layout.max_sequence()),
            format!(
                "by {} IDs of a code in {}",
                grouped(layout.positions_per_tick()),
                a_unit(layout.unit())
            ),
        ],
        Part::Reserved => [layout.reserved().to_string(), "never".into()],
    }
}

fn timestamp_used_up(plan: &Plan, now_ms: i64) -> String {
    match (plan.ends_ms(), plan.layout.wrap_ms()) {
        (Some(ends_ms), _) => instant(ends_ms, now_ms),
        (None, wrap_ms) => {
            format!("never: it starts again every {}", duration(wrap_ms.unwrap_or(0)))
        }
    }
}

fn facts(plan: &Plan, now_ms: i64) -> Vec<(&'static str, String)> {
    let js_safe = match plan.js_safe_until_ms {
        None => "always: below 2^53".into(),
        Some(until_ms) if until_ms < plan.layout.epoch_ms() => "never: above 2^53".into(),
        Some(until_ms) => format!("until {}", instant(until_ms, now_ms)),
    };
    let centers = match plan.data_centers {
        1 => String::new(),
        centers => format!(" in each of {centers} data centres"),
    };
    let (node, cluster) = (grouped(plan.per_second()), grouped(plan.per_second_of_cluster()));
    let nodes = grouped(plan.nodes());
    let mut facts = vec![
        ("IDs a second", format!("{node} of a code on a node")),
        ("", format!("{cluster} of a code on {nodes} nodes{centers}")),
        ("JS-safe", js_safe),
    ];
    facts.extend(["A crash costs", ""].into_iter().zip(crash(plan)));
    facts
}

fn crash(plan: &Plan) -> Vec<String> {
    let reach = duration(plan.crash.lane_rests_ms);
    let others = if plan.layout.lanes() > 1 { "other lanes and" } else { "other" };
    let Some(lost) = plan.crash.lost else {
        return vec![format!(
            "its lane rests for up to {reach}; {others} worker ids go on at once"
        )];
    };
    let (a_unit, lost) = (a_unit(plan.layout.unit()), grouped(lost));
    vec![
        format!("each code 1/16 of what is left of {a_unit}: up to {lost} numbers"),
        format!("in the last {reach} of {a_unit} its lane rests until the next begins"),
    ]
}

fn a_unit(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Millisecond => "a millisecond",
        TimeUnit::Second => "a second",
        TimeUnit::Minute => "a minute",
        TimeUnit::Hour => "an hour",
        TimeUnit::Day => "a day",
    }
}

fn warning(plan: &Plan, now_ms: i64) -> Option<String> {
    let ends_ms = plan.ends_ms().filter(|ends_ms| *ends_ms < now_ms)?;
    Some(format!(
        "The timestamp ran out on {}: old IDs can be parsed,\nissuing needs another layout.epoch.",
        format_unix_ms(ends_ms)
    ))
}

/// An instant and how far away it is.
fn instant(unix_ms: i64, now_ms: i64) -> String {
    let away_ms = unix_ms.saturating_sub(now_ms);
    if let Some(year) = far_year(unix_ms) {
        return year;
    }
    let (count, what) = match away_ms.abs() {
        away_ms if away_ms >= 2 * YEAR_MS => (away_ms / YEAR_MS, "years"),
        away_ms => (away_ms / DAY_MS, "days"),
    };
    let date = format_unix_ms(unix_ms);
    if away_ms < 0 {
        format!("{date}, {count} {what} ago")
    } else {
        format!("{date}, in {count} {what}")
    }
}

fn duration(millis: i64) -> String {
    format!("{:#}", SignedDuration::from_millis(millis))
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
