//! What was found, drawn.

use std::{fs, io, path::Path};

use raindrop_bench::{
    plot::{Axis, Bar, Line, bars, lines},
    rounds::Figures,
};

use crate::{
    Found,
    growth::{self, BATCH, BATCHES, CODES, HANDLE, NAMED, at},
    limits, ours,
};

pub(crate) fn draw(folder: &Path, found: &Found) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("one-id.svg"), one_id(found))?;
    fs::write(folder.join("batches.svg"), batches(&found.batches))?;
    fs::write(folder.join("codes.svg"), codes(&found.codes))
}

fn one_id(found: &Found) -> String {
    const LIMITS: [&str; 6] = [
        limits::INCREMENT,
        limits::FETCH_ADD,
        limits::LOOP,
        limits::LOOP_CACHED,
        limits::SYSTEM_CLOCK,
        limits::LOOP_SYSTEM,
    ];
    let figures = &found.alone;
    let of = |kind, name: &str, label: &str| {
        let label = label.replace('`', "");
        figures.find(name).map(|value| Bar { label, value, kind })
    };
    let ours = ours::ALONE.iter().filter_map(|name| of(0, name, name));
    let peers = found.peers.iter().filter_map(|peer| of(1, &peer.name, &peer.name));
    let limits = LIMITS.iter().filter_map(|name| of(2, name, name));
    let mut drawn: Vec<_> = ours.chain(peers).chain(limits).collect();
    drawn.sort_by(|one, other| one.value.total_cmp(&other.value));
    let legend = ["Raindrop", "peers", "limits of the machine"];
    bars("One ID on one thread", "ns", &legend, &drawn)
}

/// A line for each of these over these sizes.
fn grown(figures: &Figures, names: &[&str], sizes: &[u32]) -> Vec<Line> {
    let line = |name: &&str| {
        let points = sizes.iter().map(|size| (f64::from(*size), figures.nanos(&at(name, *size))));
        Line { name: name.replace('`', ""), points: points.collect() }
    };
    names.iter().map(line).collect()
}

fn batches(figures: &Figures) -> String {
    let drawn = grown(figures, &[BATCH, &growth::batch_peer()], &BATCHES);
    lines("Claims of several IDs", "IDs in a claim", Axis::Logarithmic("ns for each ID"), &drawn)
}

fn codes(figures: &Figures) -> String {
    let drawn = grown(figures, &[HANDLE, NAMED], &CODES);
    lines("One ID by the number of codes", "codes in use", Axis::Linear("ns for one ID"), &drawn)
}
