//! One broken rule at a time: each must lead to a position that is issued twice,
//! or, where it is about marks that run away, to a world in which nobody can issue.

use crate::{
    cluster::UNIQUE,
    configuration::Configuration,
    planted::{
        GoesOnAfterLowering, LimitIgnored, LostReplyIsFailure, LoweredBelowStart,
        LoweredToLastClaimed, LoweredUnsealed, MarkAfterIssuing, OwnByHolder, RenewalKeepsToken,
        TablePerRenewal, TokenDerived,
    },
    report::find,
    sound::SMALL,
};

macro_rules! finds {
    ($($name:ident: $bug:ident),+ $(,)?) => {$(
        #[test]
        #[cfg_attr(debug_assertions, ignore = "needs --release to end soon")]
        fn $name() {
            find::<$bug>(stringify!($bug), UNIQUE, &SMALL);
        }
    )+};
}

finds!(
    a_lease_that_goes_on_after_lowering: GoesOnAfterLowering,
    an_ignored_limit: LimitIgnored,
    a_lost_reply_taken_for_failure: LostReplyIsFailure,
    a_mark_lowered_below_the_start: LoweredBelowStart,
    a_mark_at_the_last_claimed_position: LoweredToLastClaimed,
    a_mark_lowered_unsealed: LoweredUnsealed,
    a_mark_written_after_issuing: MarkAfterIssuing,
    own_ness_by_holder: OwnByHolder,
    a_renewal_that_keeps_the_token: RenewalKeepsToken,
    a_table_per_renewal: TablePerRenewal,
    a_derived_token: TokenDerived,
);

#[test]
#[cfg_attr(debug_assertions, ignore = "needs --release to end soon")]
fn a_store_that_does_not_compare_tokens() {
    let careless = Configuration { compares_tokens: false, ..SMALL };
    find("token not compared", UNIQUE, &careless);
}
