//! Settings that a keeper refuses.

use std::time::Duration;

use raindrop_core::layout::{LayoutSpec, TimeUnit};

use super::world::second;
use crate::{KeeperSettings, LeaseTimes, state_file::MemoryDisk};

/// Returns the keys of the violations, with a window of a minute that is renewed every 10 s.
fn refused(change: impl FnOnce(&mut KeeperSettings)) -> Vec<String> {
    let layout = LayoutSpec::for_unit(TimeUnit::Millisecond).build().expect("valid");
    let mut settings = KeeperSettings::new(layout, "test");
    settings.lease = LeaseTimes { window: second(60), renew: second(10), ..LeaseTimes::default() };
    change(&mut settings);
    let violations = settings.check().err().map_or_else(Vec::new, |violations| violations.0);
    violations.into_iter().map(|violation| violation.key).collect()
}

#[test]
fn row_and_range_outlast_one_failed_renewal() {
    let nothing: [&str; 0] = [];
    let shortest = second(20) + Duration::from_nanos(1);
    assert_eq!(refused(|settings| settings.lease.ttl = shortest), nothing);
    assert_eq!(refused(|settings| settings.lease.ttl = second(20)), ["lease.ttl"]);
    assert_eq!(refused(|settings| settings.lease.window = shortest), nothing);
    assert_eq!(refused(|settings| settings.lease.window = second(20)), ["lease.window"]);
}

#[test]
fn borrow_ahead_and_hold_take_at_most_half_of_the_window() {
    let refused = |borrow_ahead, hold| {
        refused(|settings| {
            settings.issue.borrow_ahead = second(borrow_ahead);
            settings.issue.hold = second(hold);
        })
    };
    let nothing: [&str; 0] = [];
    assert_eq!(refused(15, 15), nothing);
    assert_eq!(refused(15, 16), ["rollback.hold"]);
    // Each violation is named once.
    assert_eq!(refused(31, 0), ["issue.borrow_ahead"]);
    assert_eq!(refused(0, 31), ["rollback.hold"]);
}

#[test]
fn waits_and_tables_have_bounds() {
    let nothing: [&str; 0] = [];
    assert_eq!(refused(|settings| settings.issue.max_wait = second(30)), nothing);
    assert_eq!(refused(|settings| settings.issue.max_wait = second(31)), ["issue.max_wait"]);
    assert_eq!(refused(|settings| settings.issue.codes_max = 1), nothing);
    assert_eq!(refused(|settings| settings.issue.codes_max = 0), ["codes.max"]);
    assert_eq!(refused(|settings| settings.lease.max_clock_skew = second(86_400)), nothing);
    let skew = second(86_400) + Duration::from_nanos(1);
    assert_eq!(refused(|settings| settings.lease.max_clock_skew = skew), ["lease.max_clock_skew"]);
    for (wait, expected) in [(0, &nothing[..]), (14, &["lease.stale_wait"]), (15, &[])] {
        assert_eq!(refused(|settings| settings.lease.stale_wait = second(wait)), expected);
    }
}

#[tokio::test]
async fn state_file_needs_renewals_that_wait_for_it_to_end_in_time() {
    let file = MemoryDisk::default().open();
    let nothing: [&str; 0] = [];
    let refused = |renew, has_file: bool| {
        refused(|settings| {
            settings.lease.renew = renew;
            settings.state_file = has_file.then(|| file.clone());
        })
    };
    assert_eq!(refused(second(10), true), nothing);
    let too_short = second(10) - Duration::from_nanos(1);
    assert_eq!(refused(too_short, true), ["lease.renew"]);
    assert_eq!(refused(too_short, false), nothing);
}
