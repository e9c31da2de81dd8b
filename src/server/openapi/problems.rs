//! The problems that routes answer, as the API document lists them.

use ProblemCode as P;

use crate::server::{audience::Audience, response::ProblemCode};

/// Problems of claiming IDs.
pub(in crate::server) const CLAIM: &[P] = &[
    P::UnknownCode,
    P::RetiredCode,
    P::TooManyCodes,
    P::SequenceExhausted,
    P::ClockRollback,
    P::ClockOutOfRange,
    P::LeaseUnavailable,
    P::StoreUnavailable,
    P::StoreLost,
    P::ShuttingDown,
];

/// Problems of claiming IDs that only POST has.
pub(in crate::server) const POSTED: &[P] = &[P::UnsupportedMediaType, P::OutOfRange];

/// Returns the problems that the middleware around a route of this audience may answer.
pub(super) fn problems_of_middleware(audience: Audience) -> impl Iterator<Item = ProblemCode> {
    let always =
        [P::RequestTimeout, P::PayloadTooLarge, P::UriTooLong, P::Internal, P::NotImplemented];
    let problems_of_gate: &[P] = match audience {
        Audience::Clients | Audience::Operators | Audience::Scrapers => {
            &[P::Unauthorized, P::TooManyRequests, P::Forbidden, P::Overloaded]
        }
        Audience::TokenHolders => &[P::Unauthorized, P::TooManyRequests, P::Overloaded],
        Audience::Anybody => &[],
    };
    always.into_iter().chain(problems_of_gate.iter().copied())
}

/// Returns the names of these problems, as descriptions of routes carry them.
pub(in crate::server) fn names(problems: &[&[ProblemCode]]) -> Vec<&'static str> {
    problems.iter().copied().flatten().map(|problem| problem.name()).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use super::*;
    use crate::{
        core::issue::ClaimError,
        keeper::{BackfillError, IssueError, UnavailableReason},
        server::response::Problem,
        store::StoreError,
    };

    fn names(problems: impl IntoIterator<Item = P>) -> BTreeSet<&'static str> {
        problems.into_iter().map(P::name).collect()
    }

    /// The problems of everything that a claim may end in.
    fn refusals() -> Vec<Problem> {
        let soon = Duration::from_secs(1);
        let no_lease = |reason| IssueError::NoLease { reason, retry_after: soon }.into();
        let refused = |error| IssueError::Refused(error).into();
        let timed_out = StoreError::TimedOut { after: soon };
        vec![
            refused(ClaimError::InvalidCode("a b".into())),
            refused(ClaimError::UnknownCode("a".into())),
            refused(ClaimError::RetiredCode("a".into())),
            refused(ClaimError::NoIdempotencyKeys { code: "a".into(), because: "why" }),
            refused(ClaimError::InvalidCount { count: 2, largest: 1 }),
            refused(ClaimError::TooManyCodes { max: 1, retry_after: soon }),
            refused(ClaimError::ClientShareUsed { max: 1, retry_after: soon }),
            refused(ClaimError::SequenceExhausted { retry_after: soon }),
            refused(ClaimError::ClockRollback { behind_ms: 1, retry_after: soon }),
            refused(ClaimError::ClockOutOfRange {
                now: String::new(),
                from: String::new(),
                until: String::new(),
            }),
            no_lease(UnavailableReason::Starting),
            no_lease(UnavailableReason::NoFreeWorker { due_ms: 1 }),
            no_lease(UnavailableReason::StoreUnavailable((&timed_out).into())),
            no_lease(UnavailableReason::StoreLost),
            no_lease(UnavailableReason::ClockAhead(1)),
            no_lease(UnavailableReason::ClockWentBack),
            no_lease(UnavailableReason::ClockOutOfRange),
            no_lease(UnavailableReason::LimitReached),
            no_lease(UnavailableReason::NumbersUsedUp),
            no_lease(UnavailableReason::ShuttingDown),
        ]
    }

    fn refusals_for_a_past_time() -> Vec<Problem> {
        let namespace = || String::from("default");
        let code = || String::from("order");
        vec![
            BackfillError::Refused(ClaimError::UnknownCode(code())).into(),
            BackfillError::NotReserved { namespace: namespace() }.into(),
            BackfillError::OutOfRange { at_ms: 2, first_ms: 0, now_ms: 1, can_be_opened: false }
                .into(),
            BackfillError::UsedUp { code: None, at_ms: 0, left: 0, of: 1 }.into(),
            BackfillError::RecordChanged { namespace: namespace() }.into(),
            BackfillError::NoLease(IssueError::NoLease {
                reason: UnavailableReason::Starting,
                retry_after: Duration::ZERO,
            })
            .into(),
            BackfillError::NotRenewed {
                namespace: namespace(),
                worker: 1,
                longest: Duration::from_secs(45),
            }
            .into(),
            BackfillError::EpochEnded { namespace: namespace() }.into(),
            BackfillError::Unconfirmed {
                namespace: namespace(),
                worker: 1,
                longest: Duration::from_secs(45),
            }
            .into(),
            BackfillError::CountedOtherwise {
                namespace: namespace(),
                ours: String::new(),
                recorded: String::new(),
            }
            .into(),
            BackfillError::Store(StoreError::Vanished(String::new())).into(),
        ]
    }

    #[test]
    fn claims_end_in_what_is_documented_and_nothing_else() {
        let claimed = names(refusals().iter().map(Problem::code));
        // The check of the request finds these before a claim, so `CLAIM` does not list them.
        let by_check = names([P::InvalidCode, P::InvalidCount, P::InvalidParameter]);
        assert_eq!(claimed, &names(CLAIM.iter().copied()) | &by_check);
        let past = names(refusals_for_a_past_time().iter().map(Problem::code));
        assert_eq!(&past - &claimed, names([P::OutOfRange]));
        assert!(POSTED.contains(&P::OutOfRange));
    }
}
