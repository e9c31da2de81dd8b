//! The `lease` section.

use std::time::Duration;

use super::reader::Reader;
use crate::keeper::LeaseTimes;

pub(super) fn read(reader: &mut Reader) -> LeaseTimes {
    let hour = Duration::from_hours(1);
    let millis = Duration::from_millis;
    LeaseTimes {
        window: reader.duration("lease.window", millis(1_000)..=Duration::from_hours(24)),
        ttl: reader.duration("lease.ttl", millis(500)..=hour),
        renew: reader.duration("lease.renew", millis(100)..=hour),
        max_clock_skew: reader.duration("lease.max_clock_skew", millis(100)..=hour),
    }
}
