//! The `worker` section: which worker ids this node may lease, and under which label.

use std::ops::RangeInclusive;

use super::{Host, reader::Reader};
use crate::core::{
    layout::Layout,
    worker_id::{FixedWorkerId, Ipv4LowBits, TrailingOrdinal, WorkerIdError, WorkerIdSource},
};

/// The ways to say which worker ids may be leased, by their first keys; they exclude each other.
const WAYS: [&[&str]; 3] = [&[ID], &[SOURCE], &["worker.min_id", "worker.max_id"]];
const ID: &str = "worker.id";
const SOURCE: &str = "worker.source";

/// What the `worker` section says.
#[derive(Debug)]
pub(super) struct WorkerConfig {
    pub(super) ids: RangeInclusive<u64>,
    /// Where the only id comes from, if one is given.
    pub(super) source: Option<Box<dyn WorkerIdSource>>,
    /// Whether one is meant to be given, by hand or by source.
    pub(super) is_given: bool,
    pub(super) prefer_previous: bool,
    pub(super) holder: Option<String>,
}

pub(super) fn read(reader: &mut Reader, layout: &Layout, host: &Host) -> WorkerConfig {
    let way = read_way(reader);
    let source = match way {
        Some(ID) => reader.given_number(ID).map(|id| Box::new(FixedWorkerId(id)) as _),
        Some(SOURCE) => read_source(reader, host),
        _ => None,
    };
    let is_given = matches!(way, Some(ID | SOURCE));
    let ids = match &source {
        Some(source) => read_id(reader, way.unwrap_or(ID), source.as_ref(), layout),
        // What is wrong with it was noted.
        None if is_given => 0..=0,
        None => read_range(reader, layout.largest_worker()),
    };
    let prefer_previous = reader.boolean("worker.prefer_previous");
    // The narrowest column that a store keeps it in.
    let holder = reader.given("worker.holder", "1 to 128 characters", |text| {
        (1..=128).contains(&text.chars().count()).then(|| text.to_owned())
    });
    WorkerConfig { ids, source, is_given, prefer_previous, holder }
}

/// The first key of the way that is used. A namespace's own takes the place of an inherited one;
/// two that are given side by side contradict each other.
fn read_way(reader: &mut Reader) -> Option<&'static str> {
    let any = |keys: &[&str], is: &dyn Fn(&str) -> bool| keys.iter().any(|key| is(key));
    let own = WAYS.iter().find(|keys| any(keys, &|key| reader.is_own(key)));
    let used = own.or_else(|| WAYS.iter().find(|keys| any(keys, &|key| reader.is_given(key))))?;
    for key in WAYS.concat() {
        let clashes = reader.is_own(key) || (own.is_none() && reader.is_given(key));
        if clashes && !used.contains(&key) {
            reader.reject(key, format!("left out beside {}", used[0]));
        }
    }
    Some(used[0])
}

fn read_id(
    reader: &mut Reader,
    key: &str,
    source: &dyn WorkerIdSource,
    layout: &Layout,
) -> RangeInclusive<u64> {
    match source.worker_id(layout) {
        Ok(id) => id..=id,
        Err(error) => {
            if !reader.is_bad("layout.") {
                reject_id(reader, key, &error);
            }
            0..=0
        }
    }
}

fn read_source(reader: &mut Reader, host: &Host) -> Option<Box<dyn WorkerIdSource>> {
    let source = reader.given(SOURCE, "ip or hostname", |text| {
        ["ip", "hostname"].into_iter().find(|source| *source == text)
    })?;
    let source: Result<Box<dyn WorkerIdSource>, WorkerIdError> = match source {
        "ip" => Ipv4LowBits::of(host.ip).map(|source| Box::new(source) as _),
        _ => TrailingOrdinal::of(host.name.clone()).map(|source| Box::new(source) as _),
    };
    source.map_err(|error| reject_id(reader, SOURCE, &error)).ok()
}

fn reject_id(reader: &mut Reader, key: &str, error: &WorkerIdError) {
    let allowed = match error {
        WorkerIdError::OutOfRange { smallest, largest, .. } if key == ID => {
            format!("{smallest} to {largest}")
        }
        error => format!("another source, or worker.id, since {error}"),
    };
    reader.reject(key, allowed);
}

fn read_range(reader: &mut Reader, largest: u64) -> RangeInclusive<u64> {
    let min = reader.given_number("worker.min_id").unwrap_or(1);
    let max = reader.given_number("worker.max_id").unwrap_or(largest);
    if !reader.is_bad("layout.") {
        if max > largest {
            reader.reject(
                "worker.max_id",
                format!("worker.min_id to {largest} (the layout's largest)"),
            );
        } else if min > max {
            reader.reject("worker.min_id", format!("0 to {max} (worker.max_id)"));
        }
    }
    min..=max
}
