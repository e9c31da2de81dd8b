//! One process: what it knows, and one statement after the other.
//!
//! The order of steps is the keeper's; every decision about rows and epochs is the production
//! function.

use std::sync::Arc;

use raindrop_core::lease::{
    ClockCheck, ClockVerdict, EpochClocks, HeldLanes, History, HistoryVerdict, LastWrite, Lease,
    LimitRequest, OtherToken, Resolution, Row, RowExpiry, RowWrite, StoreReading, Tenure, Token,
    judge_clock, limit_for,
};

use super::{
    configuration::{Breaks, PRESENT, World, instant, ms},
    search::Stale,
    store::{FRESH_EPOCH, FRESH_RECORD, FRESH_ROW, Record, SERVER, Tables},
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Process {
    /// The history as the record told it last.
    pub(super) known: Option<Arc<History>>,
    pub(super) went_back: bool,
    /// What new leases wait for. It outlives a search.
    pub(super) stale: Option<Stale>,
    pub(super) phase: Phase,
    pub(super) held: Option<Held>,
    /// Whether it looked since the last restore, as far as that matters.
    pub(super) has_looked: bool,
    /// Whether its lease issued the position of the present tick.
    pub(super) has_issued: bool,
}

/// What comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// A survey.
    #[default]
    Idle,
    /// Creating the record that is gone.
    Recreate { rows_are_ours: bool },
    /// Creating rows.
    Make,
    /// A search: a survey, after which the row that was read is swapped, perhaps.
    Chosen(Tenure<()>),
    /// A search: the swap.
    Ready(Tenure<()>, Judged),
    /// The swap that renews the lease.
    Renew(Judged),
    /// Reading the row, because a swap was refused or has to wait.
    Refused(Judged),
    /// Reading the row, because its epoch ended.
    Enter(Judged),
    /// A second survey, because the row was read in a new epoch.
    Entered,
    /// The swap by which the lease begins anew.
    Anew(Judged),
}

/// Whether a holder reaches the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Presence {
    Here,
    /// It issues, and reaches nothing.
    CutOff,
    /// Its process crashed, and left the lease in a state file.
    Down,
}

/// The clocks as a survey read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Judged {
    pub(super) store_ms: i64,
    /// What limits are computed from.
    pub(super) now_ms: i64,
    /// Whether the store's clock is known to be behind.
    pub(super) is_behind: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) tenure: Tenure<()>,
    pub(super) grant: Lease,
    /// The lease that begins at the barrier.
    pub(super) waiting: Option<Lease>,
    pub(super) last_write: Option<LastWrite>,
    pub(super) own_tokens: Vec<Token>,
    /// For how many ticks it has not looked.
    pub(super) since: u8,
    /// For how many ticks it has written nothing, as far as that matters.
    pub(super) unwritten: i64,
    /// Whether a mutant goes on with a lease whose row it gave up.
    pub(super) is_given_up: bool,
    pub(super) presence: Presence,
}

impl Held {
    pub(super) fn worker(&self) -> usize {
        usize::try_from(self.tenure.worker()).expect("few rows")
    }

    /// Whether the last write may be in a backup, by either clock, and the row then proves nothing.
    pub(super) fn has_lapsed(&self, world: &World, judged: Judged) -> bool {
        let wait = world.configuration.stale_wait;
        self.last_write.is_none_or(|last| {
            self.unwritten >= wait || judged.store_ms - last.store_ms >= ms(wait)
        })
    }

    fn acknowledged(&self) -> u64 {
        self.waiting.map_or(self.grant.limit, |lease| lease.limit)
    }

    /// One past what was issued: a process issues in every tick of its lease.
    fn highest_next(&self) -> u64 {
        (PRESENT + 1).clamp(self.grant.start, self.grant.limit)
    }
}

/// Its place in the world.
pub(super) struct Context<'a> {
    pub(super) world: &'a World,
    pub(super) tables: &'a mut Tables,
    pub(super) store_ms: i64,
    /// Whether the step began an epoch.
    pub(super) began: bool,
}

impl Context<'_> {
    /// What a survey makes of the clocks. A node's own clock is always right.
    pub(super) fn judge(&self, holds: bool) -> (Judged, ClockVerdict, EpochClocks) {
        let (now_ms, store_ms) = (instant(0), self.store_ms);
        let reading = StoreReading { sent_ms: now_ms, store_ms, received_ms: now_ms };
        let verdict = judge_clock(&ClockCheck {
            store: Some(reading),
            ahead_since_renewal_ms: holds.then_some(0),
            max_skew: std::time::Duration::ZERO,
        });
        let is_behind = matches!(verdict, ClockVerdict::StoreBehind(_));
        let now_ms = if is_behind { now_ms } else { now_ms.min(store_ms) };
        let mut clocks = reading.epoch_clocks(self.world.window());
        if self.world.breaks(Breaks::BarrierByWrongClock) {
            clocks = EpochClocks::of_store(store_ms);
        }
        (Judged { store_ms, now_ms, is_behind }, verdict, clocks)
    }

    pub(super) fn record(&self) -> Option<Arc<Record>> {
        self.tables.record.clone()
    }
}

impl Process {
    pub(super) fn known(&self) -> &History {
        self.known.as_ref().expect("a record was read")
    }

    /// One step of a holder; `None` when there is nothing to do.
    pub(super) fn hold(&mut self, context: &mut Context<'_>) -> Option<()> {
        match std::mem::take(&mut self.phase) {
            Phase::Idle => self.look(context, false),
            Phase::Entered => self.look(context, true),
            Phase::Recreate { rows_are_ours } => self.recreate(context, rows_are_ours),
            Phase::Make => self.make(context),
            Phase::Renew(judged) => self.renew(context, judged),
            Phase::Refused(judged) => self.refused(context, judged),
            Phase::Enter(judged) => self.enter(context, judged),
            Phase::Anew(judged) => self.begin_anew(context, judged),
            Phase::Chosen(_) | Phase::Ready(..) => unreachable!("it holds a row"),
        }
        Some(())
    }

    fn held(&mut self) -> &mut Held {
        self.held.as_mut().expect("a row is held")
    }

    /// Reads the record and the clocks.
    fn look(&mut self, context: &mut Context<'_>, has_entered: bool) {
        self.use_next_lease();
        let Some(record) = context.record() else { return self.record_is_gone(context) };
        let (judged, _, clocks) = context.judge(true);
        let ahead_ms = judged.is_behind.then_some(judged.now_ms);
        self.follow(context, &record.history, clocks, ahead_ms);
        if self.held().is_given_up {
            return self.looked();
        }
        let epoch = self.known().epoch();
        let is_behind = self.held().tenure.epoch() != epoch;
        if !record.has_rows {
            // The record told of the row before it was leased: that was lost.
            if is_behind {
                if let Some(record) = &mut context.tables.record {
                    let record = Arc::make_mut(record);
                    (record.token, record.has_rows) = (FRESH_RECORD, true);
                }
            } else {
                self.went_back = true;
            }
        } else if is_behind && !has_entered {
            self.phase = Phase::Enter(judged);
        } else if self.waits(context, judged, is_behind) {
            self.phase = Phase::Refused(judged);
        } else if !is_behind {
            self.phase = Phase::Renew(judged);
        } else if self.known().is_pending() {
            self.looked();
        } else {
            self.phase = Phase::Anew(judged);
        }
    }

    fn waits(&mut self, context: &Context<'_>, judged: Judged, begins_anew: bool) -> bool {
        let goes_on = context.world.breaks(Breaks::LapsedGoesOn)
            || begins_anew && context.world.breaks(Breaks::LapsedBeginsAnew);
        let has_lapsed = self.held().has_lapsed(context.world, judged);
        !goes_on && has_lapsed && self.stale_store(context, judged)
    }

    /// Crashes. The lease stays in the state file, if there is one, up to what was issued.
    pub(super) fn crash(&mut self, has_state_file: bool) {
        let held = self.held.take().filter(|held| has_state_file && held.waiting.is_none());
        *self = Self::default();
        self.held = held.map(|held| Held {
            grant: Lease { start: held.highest_next(), ..held.grant },
            last_write: None,
            own_tokens: vec![held.tenure.token()],
            since: 0,
            presence: Presence::Down,
            ..held
        });
    }

    /// Starts with the lease of the state file, if anything is left of it and nobody took its row.
    pub(super) fn resume(&mut self, context: &Context<'_>) {
        self.held.take_if(|held| held.grant.start >= held.grant.limit);
        let Some(held) = &mut self.held else { return };
        held.presence = Presence::Here;
        let epoch = held.tenure.epoch();
        self.known = Some(Arc::new(History::first(SERVER, epoch, context.world.times())));
        let row = context.tables.row(held.worker(), context.store_ms);
        if let (Resolution::Lost, Some(row)) = (held.tenure.resolve(row.as_ref()), row)
            && !context.world.breaks(Breaks::ResumedBlindly)
        {
            self.lose(context, &row);
        }
    }

    /// Uses the lease that begins at the barrier, once that comes due.
    fn use_next_lease(&mut self) {
        let held = self.held();
        if let Some(lease) = held.waiting.take_if(|lease| lease.start <= PRESENT) {
            held.grant = lease;
            self.has_issued = false;
        }
    }

    /// Takes note of the history that the record tells, and begins an epoch if the store does not
    /// continue it.
    pub(super) fn follow(
        &mut self,
        context: &mut Context<'_>,
        recorded: &History,
        clocks: EpochClocks,
        ahead_ms: Option<i64>,
    ) {
        let own = context.world.times();
        let known = self.known.as_ref().map(|known| known.epoch());
        let mut verdict = recorded.judge(Some(SERVER), known);
        if self.went_back && known == Some(recorded.epoch()) {
            verdict = HistoryVerdict::WentBack;
        }
        let can_set = recorded.is_pending() && clocks.later_ms.is_some();
        let history = match verdict {
            HistoryVerdict::Continued if !can_set => {
                let until_ms = ahead_ms.map(|ms| ms.saturating_add(own.reach_ms));
                recorded.continued(Some(SERVER), own, until_ms)
            }
            _ => {
                context.began = true;
                let present = recorded.or_known(self.known.as_deref());
                present.next(SERVER, FRESH_EPOCH, clocks, own)
            }
        };
        if history != *recorded {
            context.tables.write_history(history.clone());
        }
        if known != Some(history.epoch()) {
            self.went_back = false;
        }
        self.known = Some(Arc::new(history));
    }

    /// The record is gone: only a holder whose row is as it wrote it knows whose rows there are.
    fn record_is_gone(&mut self, context: &Context<'_>) {
        let (judged, ..) = context.judge(true);
        let held = self.held();
        let row = context.tables.row(held.worker(), judged.store_ms);
        let rows_are_ours = match held.tenure.resolve(row.as_ref()) {
            Resolution::Unchanged | Resolution::Visible => true,
            Resolution::Lost | Resolution::Vanished => match row {
                Some(row) if held.own_tokens.contains(&row.token) => true,
                Some(row) if self.judge(context, judged, &row) == OtherToken::Taken => {
                    return self.lose(context, &row);
                }
                _ => false,
            },
        };
        // It has no answer yet, and nobody leases meanwhile.
        self.held().since = 0;
        self.phase = Phase::Recreate { rows_are_ours };
    }

    pub(super) fn recreate(&mut self, context: &mut Context<'_>, rows_are_ours: bool) {
        let has_rows = context.tables.rows.iter().any(Option::is_some);
        if context.tables.record.is_some() || (has_rows && !rows_are_ours) {
            return;
        }
        let own = context.world.times();
        let (_, _, clocks) = context.judge(self.held.is_some());
        let history = match &self.known {
            Some(known) => {
                context.began = true;
                known.next(SERVER, FRESH_EPOCH, clocks, own)
            }
            None => History::first(SERVER, FRESH_EPOCH, own),
        };
        let record = Record { token: FRESH_RECORD, has_rows: false, history };
        context.tables.record = Some(Arc::new(record));
        self.phase = Phase::Make;
    }

    /// Creates the rows that are missing: beyond every lease, unless none of them was ever leased.
    pub(super) fn make(&mut self, context: &mut Context<'_>) {
        let Some(record) = context.record() else { return };
        let (judged, _, clocks) = context.judge(self.held.is_some());
        self.follow(context, &record.history, clocks, None);
        if record.has_rows {
            // Like a barrier, by clocks that agree.
            let by_store = context.world.breaks(Breaks::MadeByWrongClock);
            let clock_ms = if by_store { Some(judged.store_ms) } else { clocks.later_ms };
            let Some(clock_ms) = clock_ms else { return };
            let beyond = self.known().beyond(&context.world.layout, clock_ms);
            context.tables.create_rows(beyond);
        } else {
            context.tables.create_rows(PRESENT);
            if let Some(record) = &mut context.tables.record {
                let record = Arc::make_mut(record);
                (record.token, record.has_rows) = (FRESH_RECORD, true);
            }
        }
    }

    pub(super) fn write(
        &self,
        context: &Context<'_>,
        tenure: &Tenure<()>,
        mark: u64,
        expiry: RowExpiry,
    ) -> RowWrite {
        let marks = HeldLanes::on(0).marks_with(tenure.marks(), 0, mark);
        let known = self.known();
        RowWrite {
            token: FRESH_ROW,
            epoch: known.epoch(),
            holder: String::new(),
            lane: 0,
            marks: known.marks(&context.world.layout, tenure.epoch(), &marks),
            expiry,
        }
    }

    /// Swaps the row, and returns whether the store acknowledged it.
    pub(super) fn swap(
        context: &mut Context<'_>,
        tenure: &mut Tenure<()>,
        write: RowWrite,
    ) -> bool {
        let worker = usize::try_from(tenure.worker()).expect("few rows");
        let swapped = context.tables.swap_row(tenure.token(), context.store_ms, worker, &write);
        if swapped {
            tenure.sent(write, ());
            tenure.acknowledged();
        }
        swapped
    }

    fn renew(&mut self, context: &mut Context<'_>, judged: Judged) {
        let held = self.held();
        let (start, highest_next) = match held.waiting {
            Some(lease) => (lease.start, lease.start),
            None => (held.grant.start, held.highest_next()),
        };
        let limit = limit_for(
            &context.world.layout,
            &LimitRequest {
                old_limit: held.acknowledged().max(held.tenure.marks()[0]),
                start,
                highest_next,
                refused: 0,
                now_ms: judged.now_ms,
                reach_ms: context.world.reach_ms(),
            },
        );
        let mut tenure = held.tenure.clone();
        let write = self.write(context, &tenure, limit, RowExpiry::After(context.world.ttl()));
        if !Self::swap(context, &mut tenure, write) {
            self.phase = Phase::Refused(judged);
            return;
        }
        let held = self.held();
        held.tenure = tenure;
        match &mut held.waiting {
            Some(lease) => lease.limit = limit,
            None => held.grant.limit = held.grant.limit.max(limit),
        }
        self.acknowledged(context, judged);
    }

    /// Leases the row anew, from the barrier on. The present lease is used up.
    fn begin_anew(&mut self, context: &mut Context<'_>, judged: Judged) {
        let World { layout, .. } = context.world;
        let mut tenure = self.held().tenure.clone();
        let marks = self.known().marks(layout, tenure.epoch(), tenure.marks());
        let reach_ms = context.world.reach_ms();
        let lease = Lease::from_mark(layout, &marks, 0, judged.now_ms, reach_ms);
        let expiry = RowExpiry::After(context.world.ttl());
        let write = self.write(context, &tenure, lease.limit, expiry);
        if !Self::swap(context, &mut tenure, write) {
            return;
        }
        let held = self.held();
        (held.tenure, held.waiting) = (tenure, Some(lease));
        self.acknowledged(context, judged);
    }

    /// Notes an acknowledged write of the row.
    fn acknowledged(&mut self, context: &Context<'_>, judged: Judged) {
        let held = self.held();
        let (token, epoch) = (held.tenure.token(), held.tenure.epoch());
        let ttl_ms = context.world.proven_ms();
        held.last_write = Some(LastWrite { token, epoch, store_ms: judged.store_ms, ttl_ms });
        held.own_tokens.push(token);
        held.unwritten = 0;
        self.stale = None;
        self.looked();
    }

    fn looked(&mut self) {
        self.has_looked = true;
        if let Some(held) = &mut self.held {
            held.since = 0;
        }
    }

    /// Judges a row with another token than that of its holder.
    fn judge(&self, context: &Context<'_>, judged: Judged, row: &Row) -> OtherToken {
        let held = self.held.as_ref().expect("a row is held");
        let lease = (0, held.acknowledged());
        let is_sure = row.was_never_written() || held.own_tokens.contains(&row.token);
        let present = self.known().epoch();
        match LastWrite::judge(held.last_write.as_ref(), present, row, lease, 0) {
            OtherToken::WentBack if judged.is_behind && !is_sure => OtherToken::Taken,
            OtherToken::Taken if is_sure => OtherToken::WentBack,
            OtherToken::Taken if context.world.breaks(Breaks::LossIsEvidence) => {
                OtherToken::WentBack
            }
            judged => judged,
        }
    }

    /// Reads the row after a swap that was refused, or instead of one that has to wait.
    fn refused(&mut self, context: &mut Context<'_>, judged: Judged) {
        let held = self.held();
        let row = context.tables.row(held.worker(), judged.store_ms);
        match (held.tenure.resolve(row.as_ref()), row) {
            // It waits.
            (Resolution::Unchanged, _) if self.stale.is_some() => self.looked(),
            (Resolution::Unchanged | Resolution::Visible, _) => {}
            (Resolution::Lost, Some(row)) => self.found(context, judged, &row),
            (Resolution::Lost | Resolution::Vanished, _) => self.phase = Phase::Make,
        }
    }

    fn found(&mut self, context: &Context<'_>, judged: Judged, row: &Row) {
        match self.judge(context, judged, row) {
            OtherToken::LastWrite => self.held().tenure.went_back(row),
            OtherToken::CreatedAgain => {
                self.adopt(context, row.clone());
                let epoch = self.known().epoch();
                let held = self.held();
                if held.last_write.is_some() {
                    let marks = held.tenure.marks().clone();
                    held.tenure.continue_in(epoch, marks);
                }
            }
            OtherToken::WentBack if context.world.breaks(Breaks::NoEvidence) => {
                let epoch = self.known().epoch();
                let held = self.held();
                held.tenure.went_back(row);
                let marks = held.tenure.marks().clone();
                held.tenure.continue_in(epoch, marks);
            }
            OtherToken::WentBack => {
                self.went_back = true;
                // Nothing was read after the epoch began, and nothing is written.
                self.held().is_given_up = context.world.breaks(Breaks::DecidedBefore);
            }
            OtherToken::Taken => self.lose(context, row),
        }
    }

    /// Somebody else has the row, as far as it tells.
    fn lose(&mut self, context: &Context<'_>, row: &Row) {
        let limit = self.held().acknowledged();
        if !context.world.breaks(Breaks::NoEvidence) {
            self.went_back |= row.marks[0] < limit;
        }
        self.looked();
        if context.world.breaks(Breaks::LoserUsesUp) {
            self.held().is_given_up = true;
        } else {
            (self.held, self.has_issued) = (None, false);
        }
    }

    /// Goes on from a row that was found under another token than that of the last write.
    fn adopt(&mut self, context: &Context<'_>, mut row: Row) {
        let held = self.held();
        if !held.own_tokens.contains(&row.token) {
            let limit = held.acknowledged();
            held.last_write.take_if(|last| !last.held_until(context.store_ms, 0));
            if !row.was_never_written() {
                held.last_write.take_if(|_| row.marks[0] > limit);
            } else if held.last_write.is_some() {
                row.marks = row.marks.with(0, 0);
            }
        }
        held.tenure.went_back(&row);
    }

    /// Reads the row in a new epoch.
    fn enter(&mut self, context: &mut Context<'_>, judged: Judged) {
        let held = self.held();
        let row = context.tables.row(held.worker(), judged.store_ms);
        match (held.tenure.resolve(row.as_ref()), row) {
            (Resolution::Unchanged | Resolution::Visible, _) => {}
            (Resolution::Lost, Some(row)) => match self.judge(context, judged, &row) {
                OtherToken::Taken => return self.lose(context, &row),
                OtherToken::LastWrite => self.held().tenure.went_back(&row),
                OtherToken::CreatedAgain | OtherToken::WentBack => self.adopt(context, row),
            },
            (Resolution::Lost | Resolution::Vanished, _) => {
                self.phase = Phase::Make;
                return;
            }
        }
        let present = Arc::clone(self.known.as_ref().expect("a record was read"));
        let held = self.held();
        let is_unbroken = held.last_write.is_some_and(|last| present.is_unbroken(&last, 0));
        if held.waiting.is_none() && is_unbroken {
            // There is no other lane to raise.
            let marks = held.tenure.marks().clone();
            held.tenure.continue_in(present.epoch(), marks);
        } else {
            held.tenure.forget_before(present.epoch());
        }
        self.phase = Phase::Entered;
    }

    /// Ends in order: frees the row, and lowers its mark to what was issued.
    pub(super) fn stop(&mut self, context: &mut Context<'_>) {
        let Some(held) = &self.held else { return };
        let may_be_taken =
            held.last_write.is_none() || held.unwritten >= context.world.configuration.ttl;
        if may_be_taken && !context.world.breaks(Breaks::LapsedIsReleased) {
            return;
        }
        let mark = match held.waiting {
            Some(lease) => lease.start,
            None => held.highest_next(),
        };
        let mut tenure = held.tenure.clone();
        let write = self.write(context, &tenure, mark, RowExpiry::Released);
        Self::swap(context, &mut tenure, write);
    }
}
