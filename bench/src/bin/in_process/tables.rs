//! What was found, as tables and targets.

use raindrop_bench::{report::Report, rounds::Figures};

use crate::{
    ALONE, CAPPED, Found, PAIRED, Pace,
    growth::{self, BATCH, BATCHES, CODES, HANDLE, NAMED, at},
    limits, ours, writing,
};

pub(crate) fn write(report: &mut Report, found: &Found) {
    one_id(report, found);
    peers(report, found);
    two_threads(report, found);
    writing(report, &found.writing);
    growth(report, found);
    targets(report, found);
}

fn nanos(nanos: f64) -> String {
    if nanos < 10.0 { format!("{nanos:.2}") } else { format!("{nanos:.1}") }
}

fn found_or_dash(figures: &Figures, name: &str) -> String {
    figures.find(name).map_or_else(|| "–".to_owned(), nanos)
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

/// The name, the median and the ratio to another contestant.
fn compared(figures: &Figures, name: &str, to: &str) -> Vec<String> {
    vec![name.to_owned(), nanos(figures.nanos(name)), ratio(figures.ratio(name, to))]
}

fn conditions(what: &str, pace: Pace, figures: &Figures) -> String {
    format!(
        "{what} Medians of {} rounds of about {} ms each, in alternating order; ratios are \
         medians of each round's. {}",
        pace.rounds,
        pace.sample.as_millis(),
        figures.disturbance()
    )
}

const COMPARED: &str = "beside the bare loop";

fn one_id(report: &mut Report, found: &Found) {
    let figures = &found.alone;
    let row = |name: &&str| compared(figures, name, limits::LOOP);
    let head = ["one thread", "ns", COMPARED];
    report.section(
        "What the machine costs",
        &conditions(
            "A compare-and-swap loop with a clock is the least that a generator does.",
            ALONE,
            figures,
        ),
        &head,
        &limits::ALONE.iter().map(row).collect::<Vec<_>>(),
    );
    report.section(
        "One ID of Raindrop",
        &format!(
            "In the same rounds; a layout whose clock never limits (30 bits of sequence a \
             millisecond). The block iterator claims {} at a time; its IDs are up to 10 ms old.",
            ours::BLOCK
        ),
        &head,
        &ours::ALONE.iter().map(row).collect::<Vec<_>>(),
    );
}

fn peers(report: &mut Report, found: &Found) {
    let cells = |name: &str, promise: &str| {
        vec![
            name.to_owned(),
            promise.to_owned(),
            found_or_dash(&found.alone, name),
            found_or_dash(&found.paired, name),
            found_or_dash(&found.capped, name),
            found_or_dash(&found.capped_paired, name),
        ]
    };
    let mut rows = vec![cells(ours::HANDLE_CACHED, "unique")];
    rows[0][0] = format!("Raindrop, {}", rows[0][0]);
    rows.extend(found.peers.iter().map(|peer| cells(&peer.name, peer.promise)));
    report.section(
        "Peers, ns for each ID",
        &format!(
            "In the same rounds. 'Wide' are layouts whose clock does not limit; at 12 bits of \
             sequence a millisecond has 4096 IDs, which makes 244 ns for each the least ({} \
             rounds). Two threads share one generator. A dash: there is no such layout, or it \
             cannot be shared. What is promised is what the documentation says.",
            CAPPED.rounds
        ),
        &["generator", "promise", "wide", "wide, 2 threads", "12 bits", "12 bits, 2 threads"],
        &rows,
    );
}

fn two_threads(report: &mut Report, found: &Found) {
    let figures = &found.paired;
    let names = limits::PAIRED.iter().chain(&ours::PAIRED);
    report.section(
        "Two threads",
        &conditions("Each on a core of its own; their IDs count together.", PAIRED, figures),
        &["two threads", "ns", COMPARED],
        &names.map(|name| compared(figures, name, limits::LOOP)).collect::<Vec<_>>(),
    );
}

fn writing(report: &mut Report, figures: &Figures) {
    report.section(
        "1000 consecutive IDs as a JSON array of strings, ns for each ID",
        &conditions(
            "Of the default layout, 18 digits; written into one buffer that is used again.",
            ALONE,
            figures,
        ),
        &["writer", "ns", "beside Raindrop's range"],
        &writing::names().map(|name| compared(figures, &name, writing::OURS)),
    );
}

fn growth(report: &mut Report, found: &Found) {
    let rows = CODES.map(|count| {
        let cost = |name| nanos(found.codes.nanos(&at(name, count)));
        vec![count.to_string(), cost(HANDLE), cost(NAMED)]
    });
    report.section(
        "One ID by the number of codes in use, ns",
        &conditions(
            "Codes take turns in an order without a pattern; cached clock.",
            ALONE,
            &found.codes,
        ),
        &["codes", HANDLE, NAMED],
        &rows,
    );
    let peer = growth::batch_peer();
    let rows = BATCHES.map(|count| {
        let cost = |name| nanos(found.batches.nanos(&at(name, count)));
        vec![count.to_string(), cost(BATCH), cost(&peer)]
    });
    report.section(
        "Claims of several IDs, ns for each ID",
        &conditions(
            "Composed and written into an array of numbers; cached clock.",
            ALONE,
            &found.batches,
        ),
        &["IDs in a claim", BATCH, &peer],
        &rows,
    );
    let codes = CODES[CODES.len() - 1];
    report.section(
        "Memory of codes",
        "What this process has more of resident after one ID for each code.",
        &["codes", "MiB", "bytes for each"],
        &[vec![
            codes.to_string(),
            format!("{:.1}", mebibytes(found.memory)),
            (found.memory / u64::from(codes)).to_string(),
        ]],
    );
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn targets(report: &mut Report, found: &Found) {
    let Found { alone, paired, .. } = found;
    for (ours, limit) in
        [(ours::HANDLE_SYSTEM, limits::LOOP_SYSTEM), (ours::HANDLE_CACHED, limits::LOOP_CACHED)]
    {
        let ratio = alone.ratio(ours, limit);
        report.target_at_most(&format!("one ID, {ours}, beside a {limit}"), ratio, 1.15);
    }
    let rivals = found.peers.iter().filter(|peer| peer.is_rival);
    let rivals = rivals.filter(|peer| alone.find(&peer.name).is_some());
    let best = rivals
        .min_by(|one, other| alone.nanos(&one.name).total_cmp(&alone.nanos(&other.name)))
        .expect("there are rivals");
    let cheaper = alone.ratio(ours::HANDLE_CACHED, &best.name);
    report.target(
        &format!(
            "one ID, {}, beside the best thread-safe peer ({}): below 1x",
            ours::HANDLE_CACHED,
            best.name
        ),
        &format!("{cheaper:.2}x"),
        cheaper < 1.0,
    );
    for (ours, limit) in
        [(ours::HANDLE_SYSTEM, limits::LOOP_SYSTEM), (ours::HANDLE_CACHED, limits::LOOP_CACHED)]
    {
        let ratio = paired.ratio(ours, limit);
        let what = format!("two threads on one code, {ours}, beside two on one {limit}");
        report.target_at_most(&what, ratio, 1.2);
    }
    let ratio = alone.ratio(ours::BLOCKS, limits::INCREMENT);
    report.target_at_most("block iterator beside a plain `u64 += 1` in memory", ratio, 2.0);
    let ratio = alone.ratio(&best.name, ours::BLOCKS);
    report.target_at_least(
        &format!("block iterator cheaper than the best thread-safe peer ({})", best.name),
        ratio,
        8.0,
    );
    let [itoa, serde_json] = writing::others();
    for (name, least) in [(itoa, 8.0), (serde_json, 30.0)] {
        let ratio = found.writing.ratio(&name, writing::OURS);
        report.target_at_least(&format!("writing cheaper than {name}"), ratio, least);
    }
    let ratio = alone.ratio(ours::SEGMENT, limits::FETCH_ADD);
    report.target_at_most("a segment's number through its handle beside `fetch_add`", ratio, 1.3);
    report.target(
        "resident memory of 100000 codes: below 30 MiB",
        &format!("{:.1} MiB", mebibytes(found.memory)),
        mebibytes(found.memory) < 30.0,
    );
}
