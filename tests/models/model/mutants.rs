//! Breaks one rule at a time: each must lead to a position that is issued twice.

use raindrop_core::planted::Bug;

use crate::{
    cluster::UNIQUE,
    configuration::Configuration,
    report::find,
    sound::{CRASHES, KEPT, SMALL},
};

macro_rules! finds {
    ($($name:ident: $bug:ident in $world:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            find(Some(Bug::$bug), stringify!($bug), UNIQUE, &$world);
        }
    )+};
}

finds!(
    a_lease_that_goes_on_after_lowering: GoesOnAfterLowering in SMALL,
    an_ignored_limit: LimitIgnored in SMALL,
    a_lost_reply_taken_for_failure: LostReplyIsFailure in SMALL,
    a_mark_lowered_below_the_start: LoweredBelowStart in SMALL,
    a_mark_at_the_last_claimed_position: LoweredToLastClaimed in SMALL,
    a_mark_lowered_unsealed: LoweredUnsealed in SMALL,
    a_mark_written_after_issuing: MarkAfterIssuing in SMALL,
    own_ness_by_holder: OwnByHolder in SMALL,
    a_renewal_that_keeps_the_token: RenewalKeepsToken in SMALL,
    a_table_per_renewal: TablePerRenewal in SMALL,
    a_derived_token: TokenDerived in SMALL,
    a_visible_write_taken_for_durable: VisibleIsDurable in CRASHES,
    a_local_mark_written_after_issuing: LocalMarkAfterIssuing in KEPT,
    a_lease_kept_while_its_mark_is_lowered: KeptWhileLowered in KEPT,
    a_lease_resumed_at_the_clock: ResumedAtClock in KEPT,
    a_lease_resumed_under_any_token: ResumedTokenUnchecked in KEPT,
    a_state_file_without_a_lock: StateFileUnlocked in KEPT,
);

#[test]
fn a_store_that_does_not_compare_tokens() {
    let careless = Configuration { compares_tokens: false, ..SMALL };
    find(None, "token not compared", UNIQUE, &careless);
}
