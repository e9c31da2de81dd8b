//! Raises the next number of a code: for a store that was rolled back, and before a change of its
//! settings.
//!
//! A raise is a reservation whose numbers no process issues. So it is safe at any time, and only
//! leaves a gap.

use raindrop_core::{
    lease::History,
    segment::{CodeRow, SegmentSpec},
    violation::{Violation, Violations},
};
use raindrop_store::{Reservation, Reserved, StoreError};

use super::{
    code_manager::{CHANGE_TRIES, CodeManager, END},
    manage_error::{ManageError, RaiseError},
};
use crate::support::random::fresh_token;

impl CodeManager {
    /// Raises the next number of a code to `to`, unless it is higher already. Returns the next
    /// number: no number below it is reserved any more, and nodes can no longer give back blocks
    /// that they reserved before. After a fail-over the next number rises beyond the reservations
    /// that may be lost.
    ///
    /// # Errors
    ///
    /// See [`ManageError`].
    pub async fn raise_to(&self, code: &str, to: u64) -> Result<u64, ManageError> {
        for _ in 0..CHANGE_TRIES {
            let (row, history) = self.row(code).await?;
            let row = row.ok_or_else(|| RaiseError::NoSuchCode(code.to_owned()))?;
            // Written even if the next number is high enough: the fresh token makes the store
            // refuse blocks that nodes give back.
            let next = to.max(self.beyond_lost(code, &row, &history).await?);
            // Refused if another process reserved meanwhile.
            if self.raise(code, &row, &history, next, next).await? == Reserved::From(row.next) {
                return Ok(next);
            }
        }
        Err(ManageError::Contended(code.to_owned()))
    }

    /// Raises the next number of a code by `by`, and returns it. After a fail-over it rises at
    /// least beyond the reservations that may be lost.
    ///
    /// # Errors
    ///
    /// See [`ManageError`].
    pub async fn raise_by(&self, code: &str, by: u64) -> Result<u64, ManageError> {
        for _ in 0..CHANGE_TRIES {
            let (row, history) = self.row(code).await?;
            let row = row.ok_or_else(|| RaiseError::NoSuchCode(code.to_owned()))?;
            let next = row.next;
            let Some(raised) = next.checked_add(by).filter(|raised| *raised <= END) else {
                return Err(RaiseError::TooLarge { code: code.to_owned(), next, by }.into());
            };
            let to = raised.max(self.beyond_lost(code, &row, &history).await?);
            if let Reserved::From(first) = self.raise(code, &row, &history, to, END).await? {
                return Ok(first + (to - next));
            }
        }
        Err(ManageError::Contended(code.to_owned()))
    }

    /// Raises the next number of a code to `start` of its new settings. After a fail-over it also
    /// rises by the gap: by that of the settings `before` the change, if they skip more, because
    /// nodes may have lost numbers while those were in effect. If no number is left beyond that, the
    /// code could not be used, and only the gap of the new settings counts; if none is left even
    /// then, the next number stays, so that yet another gap may still save the code. A `max` that is
    /// lowered into the gap is refused.
    ///
    /// # Errors
    ///
    /// See [`ManageError`].
    pub(super) async fn raise_for_change(
        &self,
        code: &str,
        before: Option<&SegmentSpec>,
        spec: &SegmentSpec,
    ) -> Result<(), ManageError> {
        for _ in 0..CHANGE_TRIES {
            let (row, history) = self.row(code).await?;
            let row = row.ok_or_else(|| ManageError::Vanished(code.to_owned()))?;
            let skipped =
                |spec: &SegmentSpec| self.settings.gap_rule().skipped(spec, &row, &history);
            let now = skipped(spec);
            let most = before.map_or(now, |before| skipped(before).max(now));
            let beyond = |gap: u64| row.next.saturating_add(gap);
            // Numbers below that may be issued and lost. With a smaller `max` they would be
            // forgotten: a later change may raise it again.
            let lost_below = before.filter(|before| skipped(before) > 0).and_then(|before| {
                let end = beyond(skipped(before));
                (end <= before.max).then_some(end)
            });
            if let Some(least) = lost_below.filter(|end| *end > spec.max) {
                let allowed =
                    format!("at least {least}, because a fail-over may have lost numbers below");
                let violation = Violation::new("max", spec.max, allowed);
                return Err(ManageError::Invalid(Violations(vec![violation])));
            }
            let fits = |next: &u64| history.missed(row.epoch) == 0 || *next <= spec.max;
            let Some(next) = [most, now].map(beyond).into_iter().find(fits) else {
                if spec.first() <= row.next {
                    return Ok(());
                }
                let allowed = format!(
                    "at most {}, because after a fail-over the code has no number up to {} (max) \
                     beyond its gap: lower failover_gap",
                    row.next, spec.max
                );
                let violation = Violation::new("start", spec.start, allowed);
                return Err(ManageError::Invalid(Violations(vec![violation])));
            };
            let next = spec.first().max(next);
            // Written even if the next number is high enough: the fresh token makes the store
            // refuse blocks that nodes give back.
            if self.raise(code, &row, &history, next, next).await? == Reserved::From(row.next) {
                return Ok(());
            }
        }
        Err(ManageError::Contended(code.to_owned()))
    }

    /// Reserves from the row as it was read up to `to`; up to `end` if another process reserved
    /// meanwhile.
    async fn raise(
        &self,
        code: &str,
        row: &CodeRow,
        history: &History,
        to: u64,
        end: u64,
    ) -> Result<Reserved, StoreError> {
        let reservation = Reservation {
            by: to - row.next,
            // Numbers that no process uses do not count as a step.
            step: row.step,
            end,
            token: fresh_token(),
            or_begin_at: None,
            epoch: history.epoch(),
            row_epoch: row.epoch,
        };
        self.store.reserve(self.namespace(), code, &reservation).await
    }

    /// Returns the first number beyond every lost reservation: at least the next number, at most
    /// [`END`].
    async fn beyond_lost(
        &self,
        code: &str,
        row: &CodeRow,
        history: &History,
    ) -> Result<u64, ManageError> {
        if history.missed(row.epoch) == 0 {
            return Ok(row.next);
        }
        let spec = self.spec_of(code).await?;
        let skipped = self.settings.gap_rule().skipped(&spec, row, history);
        Ok(row.next.saturating_add(skipped).min(END))
    }

    /// Returns the settings of a code: those of its series, or the defaults, if it has none of its
    /// own.
    async fn spec_of(&self, code: &str) -> Result<SegmentSpec, ManageError> {
        if let Some(spec) = self.settings.codes.get(code) {
            return Ok(*spec);
        }
        match self.managed(code).await {
            Ok(Some((_, settings))) => Ok(settings.spec),
            Ok(None) => Ok(self.settings.on_demand(code).unwrap_or(self.settings.defaults)),
            // Another gap than that of the code might skip too few numbers.
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::segment::settings::SegmentSettings;
    use raindrop_core::{clock::ManualClock, lease::Token};
    use raindrop_store::{MemoryStore, NewSegment, SegmentStore, Store, UnusedNumbers};

    /// Returns a store with a code that begins at 7, and its manager.
    async fn with_order() -> (Arc<MemoryStore>, CodeManager) {
        let store = Arc::new(MemoryStore::new(Arc::new(ManualClock::new(0))));
        let manager = CodeManager::new(store.clone(), SegmentSettings::new("numbers"));
        manager.prepare().await.expect("prepared");
        let new = [NewSegment { code: "order".into(), first: 7 }];
        store.create_segments("numbers", &new).await.expect("made");
        (store, manager)
    }

    #[tokio::test]
    async fn code_is_never_raised_beyond_the_largest_number() {
        let (_store, manager) = with_order().await;
        let raise = async |code, by| match manager.raise_by(code, by).await {
            Err(ManageError::Raise(error)) => Err(error),
            raised => Ok(raised.expect("up")),
        };
        assert_eq!(raise("order", 1_000).await.expect("raised"), 1_007);
        let error = raise("order", SegmentSpec::LARGEST_NUMBER).await.expect_err("too large");
        assert!(matches!(error, RaiseError::TooLarge { next: 1_007, .. }), "{error}");
        // One past the largest number is the next one if all were handed out.
        assert_eq!(raise("order", END - 1_007).await.expect("raised"), END);
        let error = raise("order", 1).await.expect_err("too large");
        assert!(matches!(error, RaiseError::TooLarge { .. }), "{error}");
        let error = raise("other", 1).await.expect_err("not there");
        assert!(matches!(error, RaiseError::NoSuchCode(_)), "{error}");
    }

    #[tokio::test]
    async fn nothing_can_be_given_back_below_a_raise() {
        let (store, manager) = with_order().await;
        let reserved = Token::from_bits(1);
        let record = store.read_record("numbers").await.expect("up").expect("the record");
        let epoch = record.history.epoch();
        let reservation = Reservation {
            by: 1_000,
            step: 1_000,
            end: END,
            token: reserved,
            or_begin_at: None,
            epoch,
            row_epoch: Token::UNUSED,
        };
        let first = store.reserve("numbers", "order", &reservation).await.expect("up");
        assert_eq!(first, Reserved::From(7));
        assert_eq!(manager.raise_to("order", 500).await.expect("raised"), 1_007);
        let unused = UnusedNumbers { from: 8, reserved, epoch, token: Token::from_bits(2) };
        assert!(!store.give_back("numbers", "order", &unused).await.expect("up"));
        assert_eq!(manager.raise_to("order", 0).await.expect("raised"), 1_007);
    }

    #[tokio::test]
    async fn raise_after_a_fail_over_is_beyond_what_may_be_lost() {
        let (store, manager) = with_order().await;
        manager.raise_to("order", 100).await.expect("raised");
        store.fail_over("b", store.snapshot());
        // The store may have lost a hundred reservations of at most a million numbers each
        // (`gap.rs` in core).
        let next = manager.raise_by("order", 5).await.expect("raised");
        assert_eq!(next, 100 + 100_000_000);
        let listed = store.list_segments().await.expect("up").pop().expect("the code");
        let record = store.read_record("numbers").await.expect("up").expect("the record");
        assert_eq!((listed.next, listed.step), (next, 0));
        assert_eq!(listed.epoch, record.history.epoch());
        assert_ne!(listed.epoch, Token::UNUSED);
        assert_eq!(manager.raise_by("order", 5).await.expect("raised"), next + 5);
        // A raise beyond the gap adds none.
        store.fail_over("c", store.snapshot());
        assert_eq!(manager.raise_to("order", END).await.expect("raised"), END);
    }
}
