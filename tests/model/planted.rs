//! Policies with one broken rule each.

use std::hash::Hash;

use raindrop::core::planted::{Bug, planted};

/// A policy that can be part of a state.
pub(crate) trait Rules: Policy + Eq + Hash {
    /// Whether a token that was replaced can come back, so that an old write may still match.
    fn tokens_return(self) -> bool {
        self.has(Bug::TokenDerived) || self.has(Bug::RenewalKeepsToken)
    }
}

impl Rules for Sound {}

macro_rules! planted {
    ($($bug:ident),+ $(,)?) => {$(
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub(crate) struct $bug;

        impl Policy for $bug {
            fn has(self, bug: Bug) -> bool {
                bug == Bug::$bug
            }
        }

        impl Rules for $bug {}
    )+};
}

planted!(
    GoesOnAfterLowering,
    LimitIgnored,
    LostReplyIsFailure,
    LoweredBelowStart,
    LoweredToLastClaimed,
    LoweredUnsealed,
    MarkAfterIssuing,
    OwnByHolder,
    RenewalKeepsToken,
    TablePerRenewal,
    TokenDerived,
);
