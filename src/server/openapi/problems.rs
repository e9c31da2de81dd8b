//! Which problems each route answers.

use ProblemCode as P;
use axum::http::Method;

use crate::server::{
    problem::ProblemCode,
    route::{Handler, Kind, Route},
};

/// Problems of every route.
const EVERY: &[P] = &[P::RequestTimeout, P::PayloadTooLarge, P::UriTooLong, P::Internal];

/// Problems of claiming IDs.
const CLAIM: &[P] = &[
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

/// The problems that a route answers to a method.
pub(super) fn problems_of(route: &Route, method: &Method) -> Vec<ProblemCode> {
    let claims = route.kind == Kind::Claim && *method != Method::HEAD;
    // Only POST claims IDs for a past time.
    let may_backfill = claims && *method == Method::POST;
    let posts = claims && *method == Method::POST;
    let is_batch = matches!(route.handler, Handler::Claim { is_batch: true });
    [
        (true, EVERY),
        (true, route.problems),
        (route.needs_token, &[P::Unauthorized, P::TooManyRequests]),
        (route.is_for_clients || route.kind == Kind::Document, &[P::Overloaded]),
        (is_batch, &[P::InvalidCount]),
        (posts, &[P::UnsupportedMediaType]),
        (claims, CLAIM),
        (may_backfill, &[P::OutOfRange]),
    ]
    .into_iter()
    .filter(|(applies, _)| *applies)
    .flat_map(|(_, problems)| problems.iter().copied())
    .collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use super::*;
    use crate::{
        core::{issue::ClaimError, layout::BoundsError},
        keeper::{BackfillError, IssueError, UnavailableReason},
        server::{
            endpoints::{bounds, ids},
            problem::Problem,
        },
        store::StoreError,
    };

    fn names(problems: impl IntoIterator<Item = P>) -> BTreeSet<&'static str> {
        problems.into_iter().map(P::name).collect()
    }

    /// What becomes of everything that a claim may end in.
    fn refusals() -> Vec<Problem> {
        let soon = Duration::from_secs(1);
        let no_lease = |reason| IssueError::NoLease { reason, retry_after: soon }.into();
        let refused = |error| IssueError::Refused(error).into();
        let timed_out = StoreError::TimedOut { after: soon };
        vec![
            refused(ClaimError::InvalidCode("a b".into())),
            refused(ClaimError::UnknownCode("a".into())),
            refused(ClaimError::RetiredCode("a".into())),
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
            no_lease(UnavailableReason::NoFreeWorker { retry_after_seconds: 1 }),
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
        let read = [P::InvalidParameter, P::Forbidden, P::UnknownNamespace, P::UnsafeNumber];
        let around = [
            P::PayloadTooLarge,
            P::UriTooLong,
            P::Internal,
            P::Unauthorized,
            P::TooManyRequests,
            P::Overloaded,
            P::RequestTimeout,
        ];
        let around = names(read.into_iter().chain(around));
        let claimed = names(refusals().iter().map(Problem::code));
        let past = names(refusals_for_a_past_time().iter().map(Problem::code));
        let of = |route, method| names(problems_of(route, &method));

        let many = &around | &claimed;
        assert_eq!(of(&ids::MANY, Method::GET), many);
        let of_post = &past | &names([P::UnsupportedMediaType]);
        assert_eq!(of(&ids::MANY, Method::POST), &many | &of_post);
        let one = &many - &names([P::InvalidCount]);
        assert_eq!(of(&ids::ONE, Method::GET), one);
        assert_eq!(of(&ids::ONE, Method::POST), &one | &of_post);
    }

    #[test]
    fn spans_end_in_what_is_documented() {
        let bounds = names(problems_of(&bounds::ROUTE, &Method::GET));
        for error in [
            BoundsError::Reversed { from_ms: 1, to_ms: 0 },
            BoundsError::OutOfRange { end: "to", instant_ms: 9, first_ms: 0, last_ms: 1 },
            BoundsError::Wraps,
        ] {
            let code = Problem::from(error).code().name();
            assert!(bounds.contains(code), "{code}");
        }
    }
}
