//! The results as plots.

use std::{fs, io, path::Path};

use raindrop_bench::plot::{Axis, Bar, bars, lines};

use crate::{Found, contestants::Group, machine};

pub(crate) fn draw(folder: &Path, found: &Found) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("one-id.svg"), one_id(found))?;
    let drawn = found.codes.lines();
    let codes =
        lines("One ID by number of codes", "codes in use", Axis::Linear("ns per ID"), &drawn);
    fs::write(folder.join("codes.svg"), codes)?;
    let drawn = found.batches.lines();
    let y = Axis::Logarithmic("ns per ID");
    let batches = lines("Claims of several IDs", "IDs per claim", y, &drawn);
    fs::write(folder.join("batches.svg"), batches)
}

fn one_id(found: &Found) -> String {
    let is_drawn =
        |name| ![machine::COPY, machine::CACHED_CLOCK, machine::COARSE_CLOCK].contains(&name);
    let contestants = found.contestants.iter().filter(|each| is_drawn(each.name.as_str()));
    let bar = contestants.filter_map(|each| {
        let kind = match each.group {
            Group::Raindrop => 0,
            Group::Peer => 1,
            Group::Machine => 2,
        };
        let value = found.one_thread.find(&each.name)?;
        Some(Bar { label: each.name.replace('`', ""), value, kind })
    });
    let mut drawn: Vec<_> = bar.collect();
    drawn.sort_by(|one, other| one.value.total_cmp(&other.value));
    let legend = ["Raindrop", "peers", "limits of the machine"];
    bars("One ID on one thread", "ns", &legend, &drawn)
}
