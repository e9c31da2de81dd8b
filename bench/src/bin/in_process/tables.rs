//! The results as tables and targets.

use raindrop_bench::{
    machine::mebibytes,
    number::{grouped, significant},
    report::{
        Limit::{AtLeast, AtMost, Below},
        Report,
    },
    rounds::Figures,
};

use crate::{
    Found, TWELVE_BITS,
    contestants::{Contestant, Group},
    crowd,
    embedded::{BLOCK, BLOCKS, HANDLE_CACHED, HANDLE_SYSTEM, NAME_CACHED, SEGMENT},
    json_array,
    machine::{FETCH_ADD, INCREMENT, LOOP, LOOP_CACHED, LOOP_SYSTEM},
    scaling::MOST_CODES,
};

pub(crate) fn write(report: &mut Report, found: &Found) {
    single_ids(report, found);
    crowd::write(report, &found.crowd);
    peers(report, found);
    json_arrays(report, &found.json_arrays);
    scaling(report, found);
    targets(report, found);
}

fn figure_or_dash(figure: Option<f64>) -> String {
    figure.map_or_else(|| "–".to_owned(), significant)
}

/// Returns a row for each contestant that took part: its name, its median, and its ratio to `base`.
fn rows<'a>(
    figures: &Figures,
    names: impl Iterator<Item = &'a str>,
    base: &str,
) -> Vec<Vec<String>> {
    let row = |name: &'a str| {
        let (nanos, ratio) = (figures.find(name)?, figures.ratio(name, base)?);
        Some(vec![name.to_owned(), significant(nanos), format!("{}x", significant(ratio))])
    };
    names.filter_map(row).collect()
}

fn single_ids(report: &mut Report, found: &Found) {
    let names = |group| {
        let members = found.contestants.iter().filter(move |each| each.group == group);
        members.map(|each| each.name.as_str())
    };
    let mut section = |title: &str, conditions: &str, rows: &[Vec<String>]| {
        report.section(title, conditions, &["operation", "ns", "÷ bare loop"], rows);
    };
    let figures = &found.one_thread;
    section(
        "Limits of the machine, one thread",
        &format!(
            "The least that a shared generator does is a compare-and-swap loop with a clock. {}",
            figures.conditions()
        ),
        &rows(figures, names(Group::Machine), LOOP),
    );
    section(
        "One ID of Raindrop, one thread",
        &format!(
            "In the same rounds, with 30 bits of sequence in each millisecond: the clock never \
             limits. The block iterator claims {BLOCK} IDs at a time, which are up to 10 ms old."
        ),
        &rows(figures, names(Group::Raindrop), LOOP),
    );
    let figures = &found.two_threads;
    section(
        "Two threads",
        &format!("Each has a core; their IDs count together. {}", figures.conditions()),
        &rows(figures, names(Group::Machine).chain(names(Group::Raindrop)), LOOP),
    );
}

fn peers(report: &mut Report, found: &Found) {
    let ours = found.contestants.iter().filter(|each| each.name == HANDLE_CACHED);
    let peers = found.contestants.iter().filter(|each| each.group == Group::Peer);
    let columns =
        [&found.one_thread, &found.two_threads, &found.one_thread_12, &found.two_threads_12];
    let row = |each: &Contestant| {
        let ours = if each.group == Group::Raindrop { "Raindrop, " } else { "" };
        let mut row = vec![format!("{ours}{}", each.name), each.guarantee.to_owned()];
        row.extend(columns.map(|figures| figure_or_dash(figures.find(&each.name))));
        row
    };
    report.section(
        "Peers, ns per ID",
        &format!(
            "In the same rounds. Unlimited: a layout whose clock never limits. With 12 bits of \
             sequence a millisecond has 4096 IDs, so 244 ns per ID is the least ({} rounds). Two \
             threads share one generator. A dash: the generator has no such layout or cannot be \
             shared. Guarantees are those of its documentation.",
            TWELVE_BITS.rounds
        ),
        &[
            "generator",
            "guarantee",
            "unlimited",
            "unlimited, 2 threads",
            "12 bits",
            "12 bits, 2 threads",
        ],
        &ours.chain(peers).map(row).collect::<Vec<_>>(),
    );
}

fn json_arrays(report: &mut Report, figures: &Figures) {
    report.section(
        "1000 consecutive IDs as a JSON array of strings, ns per ID",
        &format!("IDs of 18 digits, written into a reused buffer. {}", figures.conditions()),
        &["writer", "ns", "÷ Raindrop's range"],
        &rows(figures, figures.names(), json_array::RANGE),
    );
}

fn scaling(report: &mut Report, found: &Found) {
    let [one, other] = &found.codes.names;
    report.section(
        "One ID by number of codes, ns",
        &format!(
            "The codes take turns in an order without a pattern; cached clock. {}",
            found.codes.conditions()
        ),
        &["codes", one, other],
        &found.codes.rows(),
    );
    let [one, other] = &found.batches.names;
    report.section(
        "Claims of several IDs, ns per ID",
        &format!(
            "Composed and written into an array of numbers; cached clock. {}",
            found.batches.conditions()
        ),
        &["IDs per claim", one, other],
        &found.batches.rows(),
    );
    report.section(
        "Memory of codes",
        "How much the resident memory of this process grows by issuing one ID of each code.",
        &["codes", "MiB", "bytes per code"],
        &[vec![
            grouped(MOST_CODES.into()),
            significant(mebibytes(found.memory)),
            (found.memory / u64::from(MOST_CODES)).to_string(),
        ]],
    );
}

fn targets(report: &mut Report, found: &Found) {
    let Found { one_thread: one, two_threads: two, json_arrays: json, .. } = found;
    let rivals = found.contestants.iter().filter(|each| each.is_rival);
    let (rival, _) = rivals
        .filter_map(|each| Some((each.name.as_str(), one.find(&each.name)?)))
        .min_by(|(_, one), (_, other)| one.total_cmp(other))
        .expect("a rival took part");
    let (itoa, serde_json) = (&*json_array::itoa(), &*json_array::serde_json());
    for (what, figures, dividend, divisor, limit) in [
        ("one ID", one, HANDLE_SYSTEM, LOOP_SYSTEM, AtMost(1.15)),
        ("one ID", one, HANDLE_CACHED, LOOP_CACHED, AtMost(0.85)),
        ("one ID, against the best thread-safe peer", one, HANDLE_CACHED, rival, AtMost(0.85)),
        ("two threads on one code", two, HANDLE_SYSTEM, LOOP_SYSTEM, AtMost(1.2)),
        ("two threads on one code", two, HANDLE_CACHED, LOOP_CACHED, AtMost(0.3)),
        ("one ID by name", one, NAME_CACHED, LOOP, AtMost(8.0)),
        ("one ID of a block", one, BLOCKS, INCREMENT, AtMost(1.4)),
        ("1000 IDs as JSON", json, itoa, json_array::RANGE, AtLeast(8.0)),
        ("1000 IDs as JSON", json, serde_json, json_array::RANGE, AtLeast(30.0)),
        ("each ID by itself as JSON", json, json_array::EACH, itoa, AtMost(0.35)),
        ("one segment number", one, SEGMENT, FETCH_ADD, AtMost(1.1)),
    ] {
        let what = format!("{what}: {dividend} ÷ {divisor}");
        report.target(&what, figures.ratio(dividend, divisor), limit, "x");
    }
    let ratio = two.find(NAME_CACHED).zip(one.find(NAME_CACHED)).map(|(two, one)| two / one);
    let what = format!("{NAME_CACHED}: two threads ÷ one thread");
    report.target(&what, ratio, AtMost(0.6), "x");
    let memory = Some(mebibytes(found.memory));
    report.target(
        &format!("memory of {} codes", grouped(MOST_CODES.into())),
        memory,
        Below(30.0),
        " MiB",
    );
}
