//! The `lease` section, and how its times bound those of other sections.

use std::time::Duration;

use super::{http::HttpConfig, reader::Reader};
use crate::{core::issue::IssueSettings, keeper::LeaseTimes};

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

pub(super) fn relate(
    reader: &mut Reader,
    lease: &LeaseTimes,
    issue: &IssueSettings,
    http: &HttpConfig,
) {
    let LeaseTimes { window, ttl, renew, .. } = *lease;
    // One renewal may fail before the row or the range is lost.
    reader.relate("lease.ttl", "lease.renew", ttl > renew * 2, "more than twice");
    reader.relate("lease.window", "lease.renew", window > renew * 2, "more than twice");
    let half = window / 2;
    let at_most_half = "at most half of";
    reader.relate("issue.max_wait", "lease.window", issue.max_wait <= half, at_most_half);
    reader.relate("issue.borrow_ahead", "lease.window", issue.borrow_ahead <= half, at_most_half);
    reader.relate("rollback.hold", "lease.window", issue.hold <= half, at_most_half);
    let answered = issue.max_wait < http.request_timeout;
    reader.relate("issue.max_wait", "http.request_timeout", answered, "less than");
}
