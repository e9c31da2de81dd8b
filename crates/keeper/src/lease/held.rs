//! Renews a held lease, and moves it to another lane.
//!
//! Before each write, [`HeldLease::renew`] and [`HeldLease::rotate`] call `bring_up_to_date`, which
//! prepares for the write. Its doc comment has the order of the steps, on which safety depends. A
//! write changes the lease only after the store acknowledged it (`apply`), and claims use the
//! change only after the state file has it ([`HeldLease::save`]).
//!
//! The task decides whether to give the lease up and when to retry, by the [`LeaseError`].
//! [`HeldRow::judge`] in `raindrop-core` decides what another token of the row means. A dropped
//! [`HeldLease`] neither seals its grant nor releases its row: the task does, as the state machine
//! says. Tests: `leases.rs`, `failovers.rs`, `recovery.rs` and `explorer.rs` in `src/tests`.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    instant::millis,
    keeper_api::Grant,
    lease::{
        Acknowledged, ClockVerdict, HeldLanes, HeldRow, KnownRow, Lease, LimitRequest, NextLease,
        OtherToken, OwnWrite, Purpose, ReleasingRow, Resolution, Row, RowCheck, RowExpiry, Token,
        limit_for, usable_lane,
    },
};
use tokio::time::Instant;

use super::{
    context::{JudgedSurvey, LastAnswer, LeaseContext, LeaseError, WriteIntent, may_have_token},
    planted,
    prepare::record_part,
    stale_wait::StaleWait,
};
use crate::support::{
    observer::{LeaseOperation, LeaseOutcome, StoreOperation},
    store_call::ClockReading,
};

/// A row that this process holds, and the grant of the lane in use.
pub(crate) struct HeldLease {
    pub(crate) row: HeldRow<WriteIntent>,
    pub(crate) grant: Arc<Grant>,
    /// When the next renewal is due.
    pub(crate) next_renewal: Instant,
    /// The token that the row had when this lease began.
    began: Token,
    /// The clocks judged for the last acknowledged write; `None` after a resume until the first
    /// one.
    renewed: Option<ClockReading>,
    /// Whether the state file bounds the grant: its limit never exceeds the saved local mark.
    is_saved: bool,
    stale: StaleWait,
}

impl HeldLease {
    pub(crate) fn new(
        context: &LeaseContext,
        known_row: KnownRow<WriteIntent>,
        lease: Lease,
        intent: Option<&WriteIntent>,
    ) -> Self {
        let is_saved = context.usable_file_writer().is_some();
        let grant = context.grant(known_row.worker(), lease, is_saved, intent.map(|it| it.clocks));
        let mut held = Self {
            began: known_row.token(),
            row: HeldRow::new(known_row, lease.lane),
            grant,
            // At once: a resumed row may be about to expire.
            next_renewal: Instant::now(),
            renewed: None,
            is_saved,
            stale: StaleWait::of_holder(),
        };
        if let Some(intent) = intent {
            held.note_acknowledged(context, intent);
        }
        held
    }

    /// Returns the clocks judged for the last acknowledged write; `None` after a resume until the
    /// first one.
    pub(crate) const fn renewed(&self) -> Option<&ClockReading> {
        self.renewed.as_ref()
    }

    /// Returns whether the limit is below the acknowledged mark. Then claims wait for the state
    /// file, and a renewal would not help them.
    pub(crate) fn waits_for_file(&self) -> bool {
        self.grant.limit() < self.grant.acknowledged()
    }

    /// Renews the lease, which raises the limit. If claims have `woken` the task before a renewal
    /// is due, no heartbeat is needed: a write that would raise nothing is left out, and this
    /// returns `false`.
    pub(crate) async fn renew(
        &mut self,
        context: &mut LeaseContext,
        woken: bool,
    ) -> Result<bool, LeaseError> {
        let judged = self.bring_up_to_date(context).await?;
        match judged.verdict {
            ClockVerdict::Ahead(ahead_ms) => {
                // Even without a write, the holder must notice that another process took the row.
                self.read_row(context, &judged).await?;
                context.observe(LeaseOperation::Renew, LeaseOutcome::ClockAhead);
                return Err(LeaseError::ClockAhead(ahead_ms));
            }
            ClockVerdict::StoreBehind(behind_ms) => {
                let namespace = &context.settings.namespace;
                tracing::warn!(
                    namespace,
                    behind_ms,
                    "store clock behind: leases follow the node's clock"
                );
            }
            ClockVerdict::Trusted => {}
        }
        // An early renewal that claims asked for still counts as part of the first, short lease.
        let limit = self.next_limit(context, &judged, context.has_renewed || !woken);
        if woken && limit == self.acknowledged() && !self.row.lanes.has_lowered_mark() {
            return Ok(false);
        }
        let expiry = RowExpiry::After(context.settings.lease.ttl);
        let lane = self.row.lanes.in_use();
        let mut write =
            context.build_write(&self.row.known_row, &self.row.lanes, lane, limit, expiry);
        planted::before_renewal(&mut write, &self.row.known_row, &self.grant, limit, context);
        let intent = judged.intent(Purpose::Renew { limit }, LeaseOperation::Renew);
        if let Some(renewed) = context.swap(&mut self.row.known_row, write, intent).await? {
            self.apply(context, &renewed);
            self.save(context).await?;
            return Ok(true);
        }
        self.resolve_writes(context, &judged, LastAnswer::Refused).await?;
        Err(LeaseError::Retry)
    }

    /// Leases another lane of the row, because the clock went back. Returns `false` if that would
    /// not help: no other lane has a past mark, or all lanes start at a barrier that is ahead.
    ///
    /// A clock that was ahead and went back only in part is still ahead. The keeper leases the lane
    /// all the same, since it holds the row. The store's clock, or without one the last agreed
    /// clock, bounds both the mark at which the lane may start and its limit
    /// ([`JudgedSurvey::now_ms`]). The next renewal finds the clock ahead.
    pub(crate) async fn rotate(&mut self, context: &mut LeaseContext) -> Result<bool, LeaseError> {
        let lane_before = self.row.lanes.in_use();
        let judged = self.bring_up_to_date(context).await?;
        if self.row.lanes.in_use() != lane_before {
            return Ok(true);
        }
        if self.row.at_barrier().is_some() || context.history.lacks_barrier() {
            // Every lane starts at the barrier, so none comes due before the present one.
            return Ok(false);
        }
        let (layout, marks) = (&context.settings.layout, self.row.known_row.marks());
        let Some(lane) = usable_lane(layout, marks, judged.now_ms, Some(lane_before)) else {
            context.observe(LeaseOperation::Rotate, LeaseOutcome::NoneFree);
            return Ok(false);
        };
        let operation = LeaseOperation::Rotate;
        let rotation =
            context.take_lane(&mut self.row.known_row, &self.row.lanes, lane, &judged, operation);
        if let Some(taken) = rotation.await? {
            self.apply(context, &taken);
            self.save(context).await?;
            return Ok(true);
        }
        self.resolve_writes(context, &judged, LastAnswer::Refused).await?;
        // An earlier write took effect instead. If that was a rotation, it suffices.
        if self.row.lanes.in_use() == lane_before { Err(LeaseError::Retry) } else { Ok(true) }
    }

    /// Updates what this process knows of the row before a write, and returns the survey that
    /// decides the write. In this order:
    ///
    /// 1. saves a lane that was leased just before a step was cancelled;
    /// 2. surveys the clocks, the record and the history;
    /// 3. if an epoch began since the last write, follows it ([`Self::follow_epoch`]);
    /// 4. fails if the last write is so old that a backup may contain it;
    /// 5. resolves writes whose outcome is unknown, and surveys again.
    ///
    /// A survey follows each read of the row. If the layout changed before the read, the row's
    /// marks are in other units, and the survey finds the new layout in the record.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Retry`] if an epoch began during these steps: the next step decides again.
    async fn bring_up_to_date(
        &mut self,
        context: &mut LeaseContext,
    ) -> Result<JudgedSurvey, LeaseError> {
        // The step that leased the lane was cancelled before the state file had it.
        if matches!(self.row.next, NextLease::Arriving(_)) && self.row.known_row.visible().is_none()
        {
            self.save(context).await?;
        }
        let mut judged = self.survey(context).await?;
        if self.is_of_earlier_epoch(context) {
            judged = self.follow_epoch(context, &judged).await?;
        }
        self.require_recent_write(context, &judged).await?;
        if self.row.known_row.unconfirmed().is_some() {
            self.resolve_writes(context, &judged, LastAnswer::Missing).await?;
            judged = self.survey(context).await?;
        }
        if self.is_of_earlier_epoch(context) {
            // The store failed over during these steps, so a write would be one of the new epoch.
            return Err(LeaseError::Retry);
        }
        Ok(judged)
    }

    /// Returns whether an epoch began since the known row was written.
    fn is_of_earlier_epoch(&self, context: &LeaseContext) -> bool {
        self.row.known_row.epoch() != context.history.epoch()
    }

    /// Reads the row, enters the present epoch, and surveys again. If the lease cannot continue in
    /// place, leases the row again, from the barrier on. Returns that survey.
    async fn follow_epoch(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<JudgedSurvey, LeaseError> {
        self.enter_epoch(context, judged).await?;
        let judged = self.survey(context).await?;
        if self.is_of_earlier_epoch(context) {
            self.require_recent_write(context, &judged).await?;
            self.lease_again(context, &judged).await?;
        }
        Ok(judged)
    }

    /// Fails if this process wrote the row so long ago that a backup may contain that write. In a
    /// store that was restored from it, the row looks as this process left it, although another
    /// process may have taken it in between. Then the holder waits as a start does. It reads the
    /// row all the same: another process's token in it may be evidence that others wait for.
    async fn require_recent_write(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<(), LeaseError> {
        if !context.waits_if_stale() || self.has_recent_write(context, judged) {
            return Ok(());
        }
        let error = if let ClockVerdict::Ahead(ahead_ms) = judged.verdict {
            // No write would follow anyway.
            context.observe(LeaseOperation::Renew, LeaseOutcome::ClockAhead);
            LeaseError::ClockAhead(ahead_ms)
        } else if let Some(stale) = self.stale.wait_for_holders(context, judged).await? {
            LeaseError::Stale(stale)
        } else {
            return Ok(());
        };
        self.read_row(context, judged).await?;
        Err(error)
    }

    /// Returns whether the last write, if it proves anything, is so young by both clocks that no
    /// backup contains it.
    fn has_recent_write(&self, context: &LeaseContext, judged: &JudgedSurvey) -> bool {
        let (Some(written), Some(last)) = (self.written(), self.row.last_write) else {
            return false;
        };
        let by_node_ms = written.elapsed_ms(&*context.shared.clock);
        let by_store_ms = judged.survey.now_ms.saturating_sub(last.store_ms);
        by_node_ms.max(by_store_ms) < millis(context.settings.lease.stale_wait)
    }

    /// Returns the clocks of the last write, unless this process never wrote the row, or that write
    /// no longer proves anything.
    fn written(&self) -> Option<&ClockReading> {
        self.renewed.as_ref().filter(|_| self.row.last_write.is_some())
    }

    /// Returns whether to let the row expire instead of releasing it, because another process may
    /// have taken it. In a store that was rolled back, the next holder would start at the released
    /// mark, and repeat what that process issued.
    pub(crate) fn is_left_to_expire(&self, context: &LeaseContext) -> bool {
        context.may_have_expired(self.written())
    }

    /// Reads the row in a new epoch, and enters the epoch.
    async fn enter_epoch(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<(), LeaseError> {
        match context.read_and_resolve(&mut self.row.known_row).await? {
            (Resolution::Visible, _) if self.row.known_row.epoch() == context.history.epoch() => {
                return Ok(());
            }
            (Resolution::Unchanged | Resolution::Visible, _) => {}
            (Resolution::Lost, Some(row)) => {
                let facts = self.row_facts(context, judged);
                match self.row.judge(&row, &facts) {
                    OtherToken::Taken => return Err(LeaseError::Lost(row.into())),
                    OtherToken::LastWrite => self.row.known_row.adopt(&row),
                    OtherToken::CreatedAgain | OtherToken::RolledBack => {
                        self.adopt(context, row, &facts).await?;
                    }
                }
            }
            (Resolution::Lost | Resolution::Vanished, _) => return Err(LeaseError::Vanished),
        }
        let present = context.history.present().expect("the record was followed");
        let max_skew_ms = millis(context.settings.lease.max_clock_skew);
        self.row.enter(present, &context.settings.layout, max_skew_ms);
        let (namespace, worker) = (&context.settings.namespace, self.row.known_row.worker());
        let continues = !self.is_of_earlier_epoch(context);
        tracing::debug!(namespace, worker, continues, "another epoch: the lease follows it");
        Ok(())
    }

    /// Continues from a row that was found under a token other than that of the last write.
    async fn adopt(
        &mut self,
        context: &LeaseContext,
        row: Row,
        facts: &RowCheck,
    ) -> Result<(), LeaseError> {
        let mut now_ms = None;
        if !self.row.is_own(&row) {
            let survey = context.store.summary(&context.scope);
            now_ms = Some(context.call(StoreOperation::Read, survey).await?.now_ms);
        }
        self.row.adopt(row, facts, now_ms);
        Ok(())
    }

    /// Returns the facts by which this holder judges a row under another token.
    fn row_facts(&self, context: &LeaseContext, judged: &JudgedSurvey) -> RowCheck {
        RowCheck {
            epoch: context.history.epoch(),
            limit: self.acknowledged(),
            max_skew_ms: millis(context.settings.lease.max_clock_skew),
            is_store_behind: judged.is_store_behind(),
        }
    }

    /// Leases the row again, from the barrier of the present epoch on. Until then, claims use up
    /// the grant in use.
    async fn lease_again(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<(), LeaseError> {
        if context.history.lacks_barrier() {
            return Err(LeaseError::BarrierPending);
        }
        if let ClockVerdict::Ahead(ahead_ms) = judged.verdict {
            context.observe(LeaseOperation::Renew, LeaseOutcome::ClockAhead);
            return Err(LeaseError::ClockAhead(ahead_ms));
        }
        let lane = self.row.lanes.in_use();
        let marks = context.marks_of(&self.row.known_row);
        let reach_ms = context.reach_ms(true);
        let layout = &context.settings.layout;
        let lease = Lease::from_mark(layout, &marks, lane, judged.now_ms, reach_ms);
        let expiry = RowExpiry::After(context.settings.lease.ttl);
        let write = context.build_write(
            &self.row.known_row,
            &HeldLanes::on(lane),
            lane,
            lease.limit,
            expiry,
        );
        let intent = judged.intent(Purpose::NewEpoch(lease), LeaseOperation::Renew);
        let Some(leased) = context.swap(&mut self.row.known_row, write, intent).await? else {
            return Err(LeaseError::Retry);
        };
        let (namespace, worker) = (&context.settings.namespace, self.row.known_row.worker());
        tracing::debug!(
            namespace,
            worker,
            "lease of the new epoch taken: it begins at the barrier"
        );
        self.apply(context, &leased);
        Ok(())
    }

    /// Uses the lease that begins at the barrier, once the barrier comes due. Returns whether it
    /// did.
    pub(crate) async fn use_next_lease(
        &mut self,
        context: &LeaseContext,
    ) -> Result<bool, LeaseError> {
        // The store must have acknowledged what is known of the row; a visible write is not enough.
        let is_acknowledged = self.row.known_row.visible().is_none();
        let is_due = is_acknowledged && self.due_in(context).is_some_and(|wait| wait.is_zero());
        if is_due {
            self.row.come_due();
            self.save(context).await?;
        }
        Ok(is_due)
    }

    /// Returns for how long the lease that begins at the barrier cannot be used; `None` if the row
    /// has no such lease. The time ends `issue.max_wait` before the barrier: a claim can wait for
    /// the rest.
    pub(crate) fn due_in(&self, context: &LeaseContext) -> Option<Duration> {
        let (lease, layout) = (self.row.at_barrier()?, &context.settings.layout);
        let due_ms = layout.start_of_tick_ms(layout.tick_of(lease.start));
        let now_ms = context.shared.clock.now_ms();
        let wait_ms =
            due_ms.saturating_sub(now_ms).saturating_sub(millis(context.settings.issue.max_wait));
        Some(Duration::from_millis(wait_ms.max(0).unsigned_abs()))
    }

    /// Returns the acknowledged limit of the lease that renewals extend.
    fn acknowledged(&self) -> u64 {
        self.row.at_barrier().map_or_else(|| self.grant.acknowledged(), |lease| lease.limit)
    }

    /// Records an acknowledged write: as evidence for later reads of the row, and for backfill.
    fn note_acknowledged(&mut self, context: &LeaseContext, intent: &WriteIntent) {
        self.renewed = Some(intent.clocks);
        let (worker, token) = (self.row.known_row.worker(), self.row.known_row.token());
        let write = OwnWrite { lease: self.began, worker, token };
        context.shared.note_own_write(write, intent.clocks.steady);
        let lease = &context.settings.lease;
        // Another process can lease a row that an operator released `issue.max_wait` before all
        // leases have ended. That is at most half of the window before, so this write proves
        // possession for at most the other half.
        let ttl_ms = millis(lease.ttl.min(lease.window / 2));
        self.row.acknowledged(intent.store_ms, ttl_ms);
        self.stale = StaleWait::of_holder();
    }

    /// Surveys the clocks and the record, and checks that the record names the configured layout
    /// and the row.
    async fn survey(&mut self, context: &mut LeaseContext) -> Result<JudgedSurvey, LeaseError> {
        let judged = context.survey(self.renewed.as_ref()).await?;
        let Some(record) = &judged.survey.record else {
            return Err(self.record_vanished(context, &judged).await?);
        };
        context.rows_are_ours = false;
        if !context.is_recorded(&judged) {
            return Err(LeaseError::RecordForeign);
        }
        if context.is_created(self.row.known_row.worker()) {
            return Ok(judged);
        }
        // A row is leased only once the record names it, so the store lost that write of the
        // record.
        if self.row.known_row.epoch() == context.history.epoch() {
            context.history.epoch_must_end = true;
            return Err(LeaseError::Retry);
        }
        record_part(context, record.clone(), self.row.known_row.worker()).await?;
        Err(LeaseError::Retry)
    }

    /// Reads the row of a namespace whose record is gone, and notes whether it shows that no
    /// process has moved the rows to another layout. Returns what follows.
    async fn record_vanished(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<LeaseError, LeaseError> {
        let (resolution, row) = context.read_and_resolve(&mut self.row.known_row).await?;
        let is_as_written = matches!(resolution, Resolution::Unchanged | Resolution::Visible);
        let is_own = |row: &Row| is_as_written || self.row.is_own(row);
        context.rows_are_ours = match row {
            Some(row) if !is_own(&row) => {
                let facts = self.row_facts(context, judged);
                if self.row.judge(&row, &facts) == OtherToken::Taken {
                    return Ok(LeaseError::Lost(row.into()));
                }
                false
            }
            row => row.is_some(),
        };
        Ok(LeaseError::Vanished)
    }

    /// Returns the limit that a renewal asks for. Resets the count of refused claims, by which it
    /// grows.
    fn next_limit(&self, context: &LeaseContext, judged: &JudgedSurvey, whole_window: bool) -> u64 {
        let reach_ms = context.reach_ms(whole_window);
        // A write of an earlier epoch may have set a higher mark. In this epoch that mark has no
        // effect.
        let known = self.row.known_row.marks()[self.row.lanes.in_use()];
        let (old_limit, now_ms) = (self.acknowledged().max(known), judged.now_ms);
        let request = match self.row.at_barrier() {
            // No ID was issued from it yet.
            Some(Lease { start, .. }) => {
                LimitRequest { old_limit, start, highest_next: start, refused: 0, now_ms, reach_ms }
            }
            None => LimitRequest {
                old_limit,
                start: self.grant.start(),
                highest_next: self.grant.highest_next(),
                refused: self.grant.take_refused(),
                now_ms,
                reach_ms,
            },
        };
        limit_for(&context.settings.layout, &request)
    }

    /// Resolves writes whose outcome is unknown, and applies the one that took effect.
    async fn resolve_writes(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
        last_answer: LastAnswer,
    ) -> Result<(), LeaseError> {
        match context.resolve_writes(&mut self.row.known_row, last_answer).await {
            Ok(Some(acknowledged)) => {
                self.apply(context, &acknowledged);
                self.save(context).await
            }
            Ok(None) => Ok(()),
            Err(LeaseError::Lost(row)) => Err(self.found(context, judged, *row).await),
            Err(error) => Err(error),
        }
    }

    /// Reads the row, and fails if another process wrote it. If another value than the token cannot
    /// be read, the next write decides: until then the limit bounds the lease, as it does while the
    /// store does not answer.
    async fn read_row(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<(), LeaseError> {
        match context.read_and_resolve(&mut self.row.known_row).await {
            Ok((Resolution::Unchanged | Resolution::Visible, _)) => Ok(()),
            Ok((Resolution::Lost, Some(row))) => Err(self.found(context, judged, row).await),
            Ok((Resolution::Lost | Resolution::Vanished, _)) => Err(LeaseError::Vanished),
            Err(LeaseError::Unreadable(error)) if may_have_token(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Judges a row that has a token of another writer, and acts on the verdict. Returns why
    /// nothing was written: `Lost`, or `Retry` if the next step can continue.
    async fn found(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
        row: Row,
    ) -> LeaseError {
        let facts = self.row_facts(context, judged);
        let verdict = self.row.judge(&row, &facts);
        let (namespace, worker, holder) = (&context.settings.namespace, row.worker, &row.holder);
        tracing::debug!(namespace, worker, holder, ?verdict, "row has another token");
        match verdict {
            OtherToken::LastWrite => self.row.known_row.adopt(&row),
            OtherToken::CreatedAgain => {
                if let Err(error) = self.adopt(context, row, &facts).await {
                    return error;
                }
                // Without a write that proves possession, the next step leases the row again, as in
                // a new epoch.
                if self.row.last_write.is_some() {
                    self.row.continue_in(context.history.epoch());
                }
            }
            OtherToken::RolledBack => context.history.epoch_must_end = true,
            OtherToken::Taken => {
                context.note_new_owner(&row, self.row.lanes.in_use(), self.acknowledged());
                return LeaseError::Lost(row.into());
            }
        }
        LeaseError::Retry
    }

    /// Saves the acknowledged lease in the state file, and then lets claims use it. Does not wait
    /// if there is no state file.
    pub(crate) async fn save(&mut self, context: &LeaseContext) -> Result<(), LeaseError> {
        // While the next lease waits for the barrier, the row's marks are already those of the next
        // lease. So the file keeps the lease in use.
        let file_writer = context.file_writer.as_ref();
        let file_writer = file_writer.filter(|_| self.is_saved && self.row.at_barrier().is_none());
        let grant = match self.row.next {
            NextLease::Arriving(lease) => {
                context.grant(self.row.known_row.worker(), lease, self.is_saved, self.renewed)
            }
            NextLease::None | NextLease::AtBarrier(_) => Arc::clone(&self.grant),
        };
        if let Some(file_writer) = file_writer {
            // 0 if the record forgot the epoch: that is below every ordinal that it remembers.
            let ordinal = context.history.ordinal_of(self.row.known_row.epoch()).unwrap_or(0);
            file_writer.save(&self.row.known_row, ordinal, &grant).await?;
        }
        if let NextLease::Arriving(_) = self.row.next {
            context.shared.generator.replace_grant(Some(Arc::clone(&grant)));
            let old = std::mem::replace(&mut self.grant, grant);
            self.row.arrived(old.seal());
        }
        Ok(())
    }

    /// Ends the lease: seals its grant, which stays unusable whatever the store answers.
    pub(crate) fn end(self) -> ReleasingRow<WriteIntent> {
        self.row.end(self.grant.seal())
    }

    /// Applies an acknowledged write to the lease. The caller must then call [`Self::save`].
    fn apply(&mut self, context: &LeaseContext, write: &Acknowledged<WriteIntent>) {
        self.note_acknowledged(context, write.intent());
        let Some(limit) = self.row.apply(write) else { return };
        planted::before_extending(&mut self.grant, limit, self.is_saved, context);
        context.extend(&self.grant, limit, self.is_saved);
    }

    /// Returns by how much the clock is behind the highest reading under which IDs were issued, in
    /// ms, if that is more than `rollback.hold`.
    pub(crate) fn rolled_back_ms(&self, context: &LeaseContext) -> Option<i64> {
        if !self.grant.is_rolled_back() {
            return None;
        }
        let behind_ms = self.grant.highest_ms().saturating_sub(context.shared.clock.now_ms());
        Some(behind_ms).filter(|behind_ms| *behind_ms > millis(context.settings.issue.hold))
    }
}
