//! The `issue`, `rollback` and `codes` sections: how IDs are issued.

use std::time::Duration;

use super::reader::Reader;
use crate::core::{
    code::{CODE_PATTERN, is_valid_code},
    issue::{IssueSettings, RollbackPolicy},
};

const HOUR: Duration = Duration::from_hours(1);

pub(super) fn read(reader: &mut Reader) -> IssueSettings {
    let policies = RollbackPolicy::ALL.map(RollbackPolicy::name).join(", ");
    IssueSettings {
        borrow_ahead: reader.duration("issue.borrow_ahead", Duration::ZERO..=HOUR),
        max_wait: reader.duration("issue.max_wait", Duration::ZERO..=HOUR),
        sequence_spread_bits: reader.number("issue.sequence_spread_bits", 0..=20),
        hold: reader.duration("rollback.hold", Duration::ZERO..=HOUR),
        rollback: reader.value("rollback.policy", policies, RollbackPolicy::by_name),
        codes_max: reader.number("codes.max", 1..=10_000_000),
        codes_shared: reader.boolean("codes.shared"),
        codes_allow: reader.list("codes.allow").map(|codes| {
            if codes.is_empty() || !codes.iter().all(|code| is_valid_code(code)) {
                reader.reject("codes.allow", format!("codes that match {CODE_PATTERN}"));
            }
            codes.into_iter().collect()
        }),
    }
}
