//! One broken rule at a time: each must lead to a position that is issued twice.

use raindrop::core::planted::Bug;

use crate::{
    cluster::UNIQUE,
    configuration::Configuration,
    report::find,
    sound::{CRASHES, SMALL},
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
);

#[test]
fn a_store_that_does_not_compare_tokens() {
    let careless = Configuration { compares_tokens: false, ..SMALL };
    find(None, "token not compared", UNIQUE, &careless);
}
