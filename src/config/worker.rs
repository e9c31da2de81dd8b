//! Which worker ids this node may lease, from the `worker` section.

use std::ops::RangeInclusive;

use super::{host::Host, reader::Reader};
use crate::core::{
    layout::Layout,
    worker_id::{WorkerIdError, WorkerIdSource},
};

/// The ways to choose worker ids, by their keys. They exclude each other.
const ALTERNATIVES: [&[&str]; 3] = [&[ID], &[SOURCE], &[MIN_ID, MAX_ID]];
const ID: &str = "worker.id";
const SOURCE: &str = "worker.source";
const MIN_ID: &str = "worker.min_id";
const MAX_ID: &str = "worker.max_id";

/// Reads which worker ids the node may lease. For an assigned one, also returns the premise under
/// which it is unique without a store; `None` if the node leases any free one.
pub(super) fn read(
    reader: &mut Reader,
    layout: &Layout,
    host: &Host,
) -> (RangeInclusive<u64>, Option<String>) {
    let alternative = read_alternative(reader);
    let source = match alternative {
        ID => reader.given_number(ID).map(|id| Ok(WorkerIdSource::Fixed(id))),
        SOURCE => reader.given(SOURCE, "ip or hostname", |text| match text {
            "ip" => Some(WorkerIdSource::ipv4_low_bits_of(host.ip)),
            "hostname" => Some(WorkerIdSource::trailing_ordinal_of(host.name.clone())),
            _ => None,
        }),
        _ => None,
    };
    let given = source.map(|source| {
        let source = source?;
        Ok((source.worker_id(layout)?, source.premise()))
    });
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

/// Returns the first key of the alternative that the configuration uses. A key of the namespace
/// overrides inherited keys of other alternatives. Keys of two alternatives in one place are a
/// problem.
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
        // The range is that of a default layout if the configured one is bad: report only the
        // layout.
        WorkerIdError::OutOfRange { .. } if reader.is_bad("layout") => return,
        WorkerIdError::OutOfRange { smallest, largest, .. } if key == ID => {
            format!("{smallest} to {largest}")
        }
        error => format!("another source, or worker.id instead: {error}"),
    };
    reader.reject(key, allowed);
}
