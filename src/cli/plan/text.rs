//! Renders a plan as text for people.

use jiff::SignedDuration;

use crate::{
    cli::output::table,
    core::{
        instant::{YEAR_MS, far_year, format_unix_ms},
        layout::TimeUnit,
    },
    plan::{Field, Part, Plan, scarce_ids},
};

const HEADINGS: [&str; 5] = ["FIELD", "BITS", "PLACE", "VALUES", "USED UP"];
const DAY_MS: i64 = 86_400_000;
const BOLD: &str = "1";
const FAINT: &str = "2";
const ALARM: &str = "1;31";

/// The largest width of text and picture: 80 columns less a margin.
const COLUMNS: usize = 78;

/// Renders a plan, with colours.
pub(super) fn render(plan: &Plan, now_ms: i64) -> String {
    let fields = [&[plan.unused()], &plan.fields[..]].concat();
    let rows: Vec<[String; 5]> = fields.iter().map(|field| row(plan, field, now_ms)).collect();
    let table = table(HEADINGS, &rows);
    let mut rows = table.lines();
    let mut coloured = vec![faint(rows.next().unwrap_or_default())];
    coloured.extend(rows.zip(&fields).map(|(row, field)| {
        let (name, colour) = look(field.part);
        let (name, rest) = row.split_at(name.len());
        paint(colour, name) + rest
    }));
    let mut sections = vec![headline(plan), picture(&fields), coloured, facts(plan, now_ms)];
    if let Some(ends) = plan.ends.as_ref().filter(|ends| ends.unix_ms < now_ms) {
        let ended = format!("The timestamp ran out on {}: old IDs", format_unix_ms(ends.unix_ms));
        sections.push(vec![
            paint(ALARM, &format!("{ended} can be parsed,")),
            paint(ALARM, "issuing needs another layout.epoch."),
        ]);
    }
    if let Some(warning) = scarce_ids(&plan.keeper) {
        sections.push(wrapped(&warning).iter().map(|line| paint(ALARM, line)).collect());
    }
    let sections: Vec<String> = sections.iter().map(|lines| lines.join("\n")).collect();
    sections.join("\n\n") + "\n"
}

fn headline(plan: &Plan) -> Vec<String> {
    let Plan { bits, epoch, keeper, .. } = plan;
    let name = paint(BOLD, &format!("Layout {}", plan.title));
    let unit = keeper.layout.unit();
    let mut lines = vec![format!("{name}: {bits} bits, a tick each {unit} from {epoch}")];
    lines.extend(wrapped(plan.promise.unwrap_or_default()).iter().map(|line| faint(line)));
    lines
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn row(plan: &Plan, field: &Field, now_ms: i64) -> [String; 5] {
    let Field { part, bits, high_bit, low_bit, max } = *field;
    let place = match bits {
        1 => high_bit.to_string(),
        _ => format!("{high_bit}-{low_bit}"),
    };
    let layout = &plan.keeper.layout;
    let all = format!("0 to {max}");
    let [values, used_up] = match part {
        Part::Unused => ["0".into(), "never".into()],
        Part::Timestamp => {
            let wraps_after = duration(plan.wraps_after_ms.unwrap_or(0));
            let ends = plan.ends.as_ref().map(|ends| instant(ends.unix_ms, now_ms));
            let never = || format!("never: it starts again every {wraps_after}");
            [all, ends.unwrap_or_else(never)]
        }
        Part::DataCenter => [all, format!("by {} data centres", plan.data_centers)],
        Part::WorkerId => [
            format!("{} to {}", plan.keeper.min_worker, plan.keeper.max_worker),
            format!("by {} nodes at a time", grouped(plan.nodes)),
        ],
        Part::Lane => {
            let times = match plan.lanes {
                2 => "twice".into(),
                lanes => format!("{lanes} times"),
            };
            let window = duration(plan.crash.lane_rests_ms);
            [all, format!("by a clock that goes back {times} in {window}")]
        }
        Part::Sequence => [
            format!("{} to {}", layout.min_sequence(), layout.max_sequence()),
            format!("by {} IDs{} in {}", grouped(plan.ids_per_tick), of_whom(plan), a_unit(plan)),
        ],
        Part::Reserved => [layout.reserved().to_string(), "never".into()],
    };
    [look(part).0.to_owned(), format!("{bits:>4}"), place, values, used_up]
}

fn facts(plan: &Plan, now_ms: i64) -> Vec<String> {
    let js_safe = match &plan.js_safe_until {
        None => "always: below 2^53".into(),
        Some(until) if until.unix_ms < plan.keeper.layout.epoch_ms() => "never: above 2^53".into(),
        Some(until) => format!("until {}", instant(until.unix_ms, now_ms)),
    };
    let uuid = match plan.uuid_random_bits {
        Some(bits) => format!("uuid7 and typeid, with {bits} random bits each"),
        None => "no: needs ticks of 1 ms from 1970 or later, and a time that does not wrap".into(),
    };
    let centers = match plan.data_centers {
        1 => String::new(),
        centers => format!(" in each of {centers} data centres"),
    };
    let rates = &plan.ids_per_second;
    let (node, cluster) = (grouped(rates.node), grouped(rates.cluster));
    let (nodes, of_whom) = (grouped(plan.nodes), of_whom(plan));
    let mut facts = vec![
        ("IDs a second", format!("{node}{of_whom} on a node")),
        ("", format!("{cluster}{of_whom} on {nodes} nodes{centers}")),
        ("JS-safe", js_safe),
        ("As UUID", uuid),
        ("As text", "base62 and base64url collide where case is ignored: use base32".to_owned()),
    ];
    let reach = duration(plan.crash.lane_rests_ms);
    if plan.keeper.layout.unit().millis() <= plan.crash.lane_rests_ms {
        let others = if plan.lanes > 1 { "other lanes and" } else { "other" };
        let rests = format!("its lane rests for up to {reach}; {others} worker ids go on at once");
        facts.push(("After a crash", rests));
    } else {
        let whose = if plan.keeper.issue.codes_shared { "" } else { "for each code " };
        let (unit, lost) = (a_unit(plan), grouped(plan.crash.numbers_lost));
        let lost = format!("{whose}1/16 of what is left of {unit} is lost: up to {lost} numbers");
        let rests = format!("in the last {reach} of {unit} its lane rests until the next begins");
        facts.extend([("After a crash", lost), ("", rests)]);
    }
    let line = |(name, fact)| format!("{} {fact}", paint(BOLD, &format!("{name:<13}")));
    facts.into_iter().map(line).collect()
}

/// Returns whose rates the plan shows: all codes together, or one code.
const fn of_whom(plan: &Plan) -> &'static str {
    if plan.keeper.issue.codes_shared { "" } else { " of a code" }
}

fn a_unit(plan: &Plan) -> String {
    let unit = plan.keeper.layout.unit();
    match unit {
        TimeUnit::TenMilliseconds => "10 ms".to_owned(),
        TimeUnit::Hour => format!("an {unit}"),
        _ => format!("a {unit}"),
    }
}

/// Returns an instant with its distance from now.
fn instant(unix_ms: i64, now_ms: i64) -> String {
    if let Some(year) = far_year(unix_ms) {
        return year;
    }
    let away_ms = unix_ms.saturating_sub(now_ms);
    let (count, unit) = match away_ms.abs() {
        away_ms if away_ms >= 2 * YEAR_MS => (away_ms / YEAR_MS, "years"),
        away_ms => (away_ms / DAY_MS, "days"),
    };
    let (before, after) = if away_ms < 0 { ("", " ago") } else { ("in ", "") };
    format!("{}, {before}{count} {unit}{after}", format_unix_ms(unix_ms))
}

fn duration(millis: i64) -> String {
    format!("{:#}", SignedDuration::from_millis(millis))
}

/// Returns a number with its thousands separated.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
}

/// Returns the name of a part, and its colour as an ANSI code.
const fn look(part: Part) -> (&'static str, &'static str) {
    match part {
        Part::Unused => ("unused", FAINT),
        Part::Timestamp => ("timestamp", "1;34"),
        Part::DataCenter => ("data centre", "1;35"),
        Part::WorkerId => ("worker", "1;32"),
        Part::Lane => ("rollback", "1;33"),
        Part::Sequence => ("sequence", "1;36"),
        Part::Reserved => ("reserved", "1;31"),
    }
}

/// Returns a text in the colour of an ANSI code.
fn paint(code: &str, text: &str) -> String {
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Returns a text in a faint colour.
fn faint(text: &str) -> String {
    paint(FAINT, text)
}

/// Draws the fields as a row of boxes, with the number of the highest bit above each. A box is as
/// wide as the field has bits, if that fits, and never narrower than its name.
fn picture(fields: &[Field]) -> Vec<String> {
    let widths = widths(fields);
    let row = |left: &str, between: &str, right: &str, cell: &dyn Fn(&Field, usize) -> String| {
        let cells: Vec<String> =
            fields.iter().zip(&widths).map(|(field, width)| cell(field, *width)).collect();
        let [left, between, right] = [left, between, right].map(faint);
        format!("{left}{}{right}", cells.join(&between))
    };
    let rule = |_: &Field, width: usize| faint(&"─".repeat(width));
    let name = |field: &Field, width: usize| {
        let (name, colour) = look(field.part);
        let name = if field.part == Part::Unused { "0" } else { name };
        paint(colour, &format!("{name:^width$}"))
    };
    let bits =
        |field: &Field, width: usize| paint(look(field.part).1, &format!("{:^width$}", field.bits));
    // The highest bit of each field, and at the end the last bit.
    let high_bits = fields.iter().zip(&widths);
    let mut ruler: String =
        high_bits.map(|(field, width)| format!(" {:<width$}", field.high_bit)).collect();
    ruler.pop();
    vec![
        faint(&(ruler + "0")),
        row("┌", "┬", "┐", &rule),
        row("│", "│", "│", &name),
        row("│", "│", "│", &bits),
        row("└", "┴", "┘", &rule),
    ]
}

/// Returns the widths of the boxes: one column per bit, but at least the length of the name. If the
/// picture is too wide, the widest boxes become narrower until it fits.
fn widths(fields: &[Field]) -> Vec<usize> {
    let least = |field: &Field| match field.part {
        // The box contains 0, below a number of two digits.
        Part::Unused => 2,
        part => look(part).0.len(),
    };
    let wanted = |field: &Field| least(field).max(usize::try_from(field.bits).unwrap_or(COLUMNS));
    let mut widths: Vec<usize> = fields.iter().map(wanted).collect();
    while widths.iter().sum::<usize>() + widths.len() + 1 > COLUMNS {
        let spare = |index: &usize| widths[*index] - least(&fields[*index]);
        let widest = (0..widths.len()).max_by_key(spare).filter(|index| spare(index) > 0);
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
    }
    widths
}
