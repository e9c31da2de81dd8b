//! Which worker ids this node may lease, from the `worker` section.

use std::ops::RangeInclusive;

use super::{host::Host, reader::Reader};
use crate::core::{
    layout::Layout,
    worker_id::{FixedWorkerId, Ipv4LowBits, TrailingOrdinal, WorkerIdError, WorkerIdSource},
};

/// The alternatives, by their keys: each excludes the others.
const ALTERNATIVES: [&[&str]; 3] = [&[ID], &[SOURCE], &[MIN_ID, MAX_ID]];
const ID: &str = "worker.id";
const SOURCE: &str = "worker.source";
const MIN_ID: &str = "worker.min_id";
const MAX_ID: &str = "worker.max_id";

/// Reads the worker ids, and what a given one rests on without a store; `None` when any of them is
/// leased.
pub(super) fn read(
    reader: &mut Reader,
    layout: &Layout,
    host: &Host,
) -> (RangeInclusive<u64>, Option<String>) {
    let alternative = read_alternative(reader);
    let of = |source: &dyn WorkerIdSource| Ok((source.worker_id(layout)?, source.premise()));
    let given = match alternative {
        ID => reader.given_number(ID).map(|id| of(&FixedWorkerId(id))),
        SOURCE => reader.given(SOURCE, "ip or hostname", |text| match text {
            "ip" => Some(Ipv4LowBits::of(host.ip).and_then(|ip| of(&ip))),
            "hostname" => Some(TrailingOrdinal::of(host.name.clone()).and_then(|name| of(&name))),
            _ => None,
        }),
        _ => None,
    };
    let (ids, premise) = match given {
        Some(Ok((id, premise))) => (id..=id, Some(premise)),
        None if alternative == MIN_ID => {
            let min = reader.given_number(MIN_ID).unwrap_or(1);
            let max = reader.given_number(MAX_ID).unwrap_or(layout.largest_worker());
            (min..=max, None)
        }
        refused => {
            if let Some(Err(error)) = refused {
                reject(reader, alternative, &error);
            }
            (layout.smallest_worker()..=layout.smallest_worker(), Some(String::new()))
        }
    };
    reader.resolve(MIN_ID, ids.start());
    reader.resolve(MAX_ID, ids.end());
    (ids, premise)
}

/// Returns the first key of the alternative that is used. A namespace's own takes the place of an
/// inherited one; two that are given side by side contradict each other.
fn read_alternative(reader: &mut Reader) -> &'static str {
    let any =
        |is: &dyn Fn(&str) -> bool| ALTERNATIVES.iter().find(|keys| keys.iter().any(|key| is(key)));
    let own = any(&|key| reader.is_own(key));
    let Some(used) = own.or_else(|| any(&|key| reader.is_given(key))) else { return MIN_ID };
    for key in ALTERNATIVES.concat() {
        let clashes = reader.is_own(key) || (own.is_none() && reader.is_given(key));
        if clashes && !used.contains(&key) {
            reader.reject(key, format!("left out beside {}", used[0]));
        }
    }
    used[0]
}

fn reject(reader: &mut Reader, key: &str, error: &WorkerIdError) {
    let allowed = match error {
        // The default that takes the place of a bad layout must not be held against the id.
        WorkerIdError::OutOfRange { .. } if reader.is_bad("layout") => return,
        WorkerIdError::OutOfRange { smallest, largest, .. } if key == ID => {
            format!("{smallest} to {largest}")
        }
        error => format!("another source, or worker.id instead: {error}"),
    };
    reader.reject(key, allowed);
}
