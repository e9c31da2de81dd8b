//! The `worker` section: which worker ids this node may lease, and under which label.

use std::{net::IpAddr, ops::RangeInclusive};

use super::{Host, reader::Reader};
use crate::core::layout::Layout;

/// What the `worker` section says.
#[derive(Debug)]
pub(super) struct WorkerConfig {
    pub(super) ids: RangeInclusive<u64>,
    /// Whether exactly one id was given, by hand or by source.
    pub(super) is_given: bool,
    pub(super) prefer_previous: bool,
    pub(super) holder: Option<String>,
}

pub(super) fn read(reader: &mut Reader, layout: &Layout, host: &Host) -> WorkerConfig {
    let largest = layout.largest_worker();
    let given = read_given(reader, largest, host);
    let ids = given.map_or_else(|| read_range(reader, largest), |id| id..=id);
    let prefer_previous = reader.boolean("worker.prefer_previous");
    // The narrowest column that a store keeps it in.
    let holder = reader.given("worker.holder", "1 to 128 characters", |text| {
        (1..=128).contains(&text.chars().count()).then(|| text.to_owned())
    });
    let is_given = reader.is_given("worker.id") || reader.is_given("worker.source");
    WorkerConfig { ids, is_given, prefer_previous, holder }
}

fn read_given(reader: &mut Reader, largest: u64, host: &Host) -> Option<u64> {
    let id: Option<u64> = reader.given_number("worker.id");
    if id.is_some_and(|id| id > largest) && !reader.is_bad("layout.") {
        reader.reject("worker.id", format!("0 to {largest}"));
    }
    let source = reader.given("worker.source", "ip or hostname", |text| {
        ["ip", "hostname"].into_iter().find(|source| *source == text)
    });
    for key in ["worker.source", "worker.min_id", "worker.max_id"] {
        if reader.is_given("worker.id") && reader.is_given(key) {
            reader.reject(key, "left out beside worker.id");
        } else if key != "worker.source" && reader.is_given("worker.source") && reader.is_given(key)
        {
            reader.reject(key, "left out beside worker.source");
        }
    }
    match source {
        Some("ip") => match host.ip {
            Some(IpAddr::V4(ip)) => return Some(u64::from(u32::from(ip)) & largest),
            _ => reader.reject("worker.source", "hostname, since no IPv4 address was found"),
        },
        Some(_) => {
            let ordinal = host.name.as_deref().and_then(trailing_number);
            if ordinal.is_some_and(|ordinal| ordinal <= largest) {
                return ordinal;
            }
            let name = host.name.as_deref().unwrap_or("unknown");
            let ends = format!("ip, or the host's name ({name}) must end in 0 to {largest}");
            reader.reject("worker.source", ends);
        }
        None => {}
    }
    id
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

fn trailing_number(name: &str) -> Option<u64> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().ok()
}
