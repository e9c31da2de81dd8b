//! One process: its knowledge, and one statement after the other.
//!
//! The order of steps is the keeper's; every decision about rows and epochs is the production
//! function.

use std::sync::Arc;

use raindrop_core::lease::{
    Acknowledged, ClockCheck, ClockVerdict, Epoch, EpochClocks, HeldLanes, HeldRow, History,
    HistoryVerdict, KnownRow, Lease, LimitRequest, OtherToken, Purpose, Resolution, Row, RowCheck,
    RowExpiry, RowWrite, StoreReading, judge_clock, limit_for,
    state::{Effect, Event, State, next},
};

use super::{
    configuration::{Breaks, PRESENT, World, instant, ms},
    past::Past,
    search::Stale,
    store::{FRESH_EPOCH, FRESH_RECORD, FRESH_ROW, Record, SERVER, Tables},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    /// The history as the record had it last.
    pub(super) known: Option<Arc<History>>,
    pub(super) went_back: bool,
    /// The stale store that new leases wait for. It outlives a search.
    pub(super) stale: Option<Stale>,
    pub(super) phase: Phase,
    /// The state of the lease, as the keeper's task has it.
    state: State<Held, ()>,
    /// The lease that a crashed process left in its state file.
    kept: Option<Held>,
    /// Whether the process has checked the store since the last restore, as far as that matters.
    pub(super) has_looked: bool,
    /// Whether the lease issued the position of the present tick.
    pub(super) has_issued: bool,
    /// The reserved ID of the past tick.
    pub(super) past: Option<Past>,
}

/// The next step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// A survey.
    #[default]
    Idle,
    /// Creating the record that is gone.
    Recreate { rows_are_ours: bool },
    /// Creating rows.
    Make,
    /// A search: a survey, after which the process may swap the row that it read.
    Chosen(KnownRow<Purpose>),
    /// A search: the swap.
    Ready(KnownRow<Purpose>, Judged),
    /// The swap that renews the lease.
    Renew(Judged),
    /// Reading the row, because the store refused a swap or the swap has to wait.
    Refused(Judged),
    /// Reading the row, because the epoch of the row ended.
    Enter(Judged),
    /// A second survey, because the row was read in a new epoch.
    Entered,
    /// The swap that leases the row again.
    Anew(Judged),
}

/// Whether a holder reaches the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Presence {
    Here,
    /// The process issues, and reaches nothing.
    CutOff,
    /// The process crashed, and left the lease in a state file.
    Down,
}

/// The clocks as a survey read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Judged {
    pub(super) store_ms: i64,
    /// The time from which limits are computed.
    pub(super) now_ms: i64,
    /// Whether the store's clock is known to be behind.
    pub(super) is_behind: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) row: HeldRow<Purpose>,
    pub(super) grant: Lease,
    /// For how many ticks the holder has not checked its row.
    pub(super) since: u8,
    /// For how many ticks the holder has written nothing, as far as that matters.
    pub(super) unwritten: i64,
    /// Whether a mutant continues a lease whose row it gave up.
    pub(super) is_given_up: bool,
    pub(super) presence: Presence,
}

impl Held {
    pub(super) fn worker(&self) -> usize {
        usize::try_from(self.row.known_row.worker()).expect("few rows")
    }

    /// Returns whether the last write may be in a backup, by either clock, so that the row proves
    /// nothing.
    pub(super) fn has_lapsed(&self, world: &World, judged: Judged) -> bool {
        let wait = world.configuration.stale_wait;
        self.row.last_write.is_none_or(|last| {
            self.unwritten >= wait || judged.store_ms - last.store_ms >= ms(wait)
        })
    }

    fn acknowledged(&self) -> u64 {
        self.row.at_barrier().map_or(self.grant.limit, |lease| lease.limit)
    }

    /// Returns one past the last issued position: a process issues in every tick of its lease.
    fn highest_next(&self) -> u64 {
        (PRESENT + 1).clamp(self.grant.start, self.grant.limit)
    }
}

/// The surroundings of a process.
pub(super) struct Context<'a> {
    pub(super) world: &'a World,
    pub(super) tables: &'a mut Tables,
    pub(super) store_ms: i64,
    /// Whether the step began an epoch.
    pub(super) began: bool,
}

impl Context<'_> {
    /// Returns the clocks as a survey judges them. A node's own clock is always right.
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

impl Default for Process {
    fn default() -> Self {
        let mut process = Self {
            known: None,
            went_back: false,
            stale: None,
            phase: Phase::Idle,
            state: State::Starting,
            kept: None,
            has_looked: false,
            has_issued: false,
            past: None,
        };
        process.start(Event::NothingSaved);
        process
    }
}

impl Process {
    /// Starts with the lease of the state file, or with none; phases cover what is missing in the
    /// store.
    fn start(&mut self, event: Event<Held>) {
        self.enter(event);
        self.enter(Event::Prepared);
    }

    /// Enters the state that follows an event, and returns the effects.
    pub(super) fn enter(&mut self, event: Event<Held>) -> Vec<Effect<Held, ()>> {
        let state = std::mem::replace(&mut self.state, State::Ended);
        let entered = next(state, event).expect("the event can happen in this state");
        self.state = entered.state;
        entered.effects
    }

    /// Returns the held lease, also that of a crashed process which left it in its state file.
    pub(super) fn held(&self) -> Option<&Held> {
        self.state.held().map(|held| &held.lease).or(self.kept.as_ref())
    }

    pub(super) fn held_mut(&mut self) -> Option<&mut Held> {
        self.state.held_mut().map(|held| &mut held.lease).or(self.kept.as_mut())
    }

    pub(super) fn known(&self) -> &History {
        self.known.as_ref().expect("a record was read")
    }

    /// Takes one step of a holder; `None` when there is nothing to do.
    pub(super) fn hold(&mut self, context: &mut Context<'_>) -> Option<()> {
        match std::mem::take(&mut self.phase) {
            Phase::Idle => self.look(context, false),
            Phase::Entered => self.look(context, true),
            Phase::Recreate { rows_are_ours } => self.recreate(context, rows_are_ours),
            Phase::Make => self.make(context),
            Phase::Renew(judged) => self.renew(context, judged),
            Phase::Refused(judged) => self.refused(context, judged),
            Phase::Enter(judged) => self.enter_epoch(context, judged),
            Phase::Anew(judged) => self.begin_anew(context, judged),
            Phase::Chosen(_) | Phase::Ready(..) => unreachable!("it holds a row"),
        }
        Some(())
    }

    fn lease(&mut self) -> &mut Held {
        self.held_mut().expect("a row is held")
    }

    /// Reads the record and the clocks.
    fn look(&mut self, context: &mut Context<'_>, has_entered: bool) {
        self.use_next_lease();
        let Some(record) = context.record() else { return self.record_is_gone(context) };
        let (judged, _, clocks) = context.judge(true);
        let ahead_ms = judged.is_behind.then_some(judged.now_ms);
        self.follow(context, &record.history, clocks, ahead_ms);
        if self.lease().is_given_up {
            return self.looked();
        }
        let epoch = self.known().epoch();
        let is_behind = self.lease().row.known_row.epoch() != epoch;
        if !record.has_rows {
            // The record listed the row before it was leased: the store lost that.
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
        } else if self.known().lacks_barrier() {
            self.looked();
        } else {
            self.phase = Phase::Anew(judged);
        }
    }

    fn waits(&mut self, context: &Context<'_>, judged: Judged, begins_anew: bool) -> bool {
        let goes_on = context.world.breaks(Breaks::LapsedGoesOn)
            || begins_anew && context.world.breaks(Breaks::LapsedBeginsAnew);
        let has_lapsed = self.lease().has_lapsed(context.world, judged);
        !goes_on && has_lapsed && self.stale_store(context, judged)
    }

    /// Crashes. If there is a state file, it keeps the lease, up to the issued positions.
    pub(super) fn crash(&mut self, has_state_file: bool) {
        let kept = self
            .held()
            .filter(|held| has_state_file && held.row.at_barrier().is_none() && !held.is_given_up);
        let kept = kept.cloned().map(|held| Held {
            grant: Lease { start: held.highest_next(), ..held.grant },
            row: HeldRow::new(held.row.known_row, 0),
            since: 0,
            presence: Presence::Down,
            ..held
        });
        let start = Self::default();
        // Of the history, the file has the epoch alone.
        let known = kept.as_ref().map(|held| {
            let token = held.row.known_row.epoch();
            let ordinal = self.known().ordinal_of(token).unwrap_or(0);
            Arc::new(History::of_saved_epoch(Epoch { token, ordinal }))
        });
        let state = if kept.is_some() { State::Starting } else { start.state };
        *self = Self { known, kept, state, ..start };
    }

    /// Starts with the lease of the state file, if something is left of it and no process took its
    /// row.
    pub(super) fn resume(&mut self, context: &Context<'_>) {
        let kept = self.kept.take().filter(|held| held.grant.start < held.grant.limit);
        let Some(mut held) = kept else {
            self.known = None;
            return self.start(Event::NothingSaved);
        };
        held.presence = Presence::Here;
        let row = context.tables.row(held.worker(), context.store_ms);
        match (held.row.known_row.resolve(row.as_ref()), row) {
            (Resolution::Lost, Some(row)) if !context.world.breaks(Breaks::ResumedBlindly) => {
                self.note_taken(&row, held.acknowledged());
                self.start(Event::NothingSaved);
            }
            _ => self.start(Event::Resumed(held)),
        }
    }

    /// Uses the lease that begins at the barrier, once that comes due.
    fn use_next_lease(&mut self) {
        let held = self.lease();
        if let Some(lease) = held.row.at_barrier().filter(|lease| lease.start <= PRESENT) {
            held.row.come_due();
            held.row.arrived(lease.start);
            held.grant = lease;
            self.has_issued = false;
        }
    }

    /// Takes over the history in the record, and begins an epoch if the store does not continue it.
    pub(super) fn follow(
        &mut self,
        context: &mut Context<'_>,
        recorded: &History,
        clocks: EpochClocks,
        ahead_ms: Option<i64>,
    ) {
        let own = context.world.times();
        let known = self.known.as_ref().map(|known| known.epoch());
        let mut verdict = self.judge_record(context.world, recorded);
        if self.went_back && known == Some(recorded.epoch()) {
            verdict = HistoryVerdict::RolledBack;
        }
        let can_set = recorded.lacks_barrier() && clocks.later_ms.is_some();
        let history = match verdict {
            HistoryVerdict::Continued if !can_set => {
                let until_ms = ahead_ms.map(|ms| ms.saturating_add(own.reach_ms));
                recorded.continued(Some(SERVER), own, until_ms)
            }
            _ => {
                context.began = true;
                let present = recorded.or_known(self.known.as_deref());
                present.next(SERVER, FRESH_EPOCH, clocks, own).begun_by(verdict)
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

    fn judge_record(&self, world: &World, recorded: &History) -> HistoryVerdict {
        let known = self.known.as_ref();
        if let Some(known) = known.filter(|_| world.breaks(Breaks::EpochsByTime)) {
            // All other remembered epochs began later.
            let is_forgotten = recorded.before.len() == world.configuration.remembers - 1
                && known.since_ms < recorded.since_ms;
            let is_known = is_forgotten || recorded.epochs().any(|it| it == known.epoch());
            return if is_known { HistoryVerdict::Continued } else { HistoryVerdict::RolledBack };
        }
        recorded.judge(Some(SERVER), known.map(|known| known.present_epoch()))
    }

    /// Handles a missing record: only a holder whose row is as it wrote it knows which layout the
    /// rows have.
    fn record_is_gone(&mut self, context: &Context<'_>) {
        let (judged, ..) = context.judge(true);
        let held = self.lease();
        let row = context.tables.row(held.worker(), judged.store_ms);
        let rows_are_ours = match held.row.known_row.resolve(row.as_ref()) {
            Resolution::Unchanged | Resolution::Visible => true,
            Resolution::Lost | Resolution::Vanished => match row {
                Some(row) if held.row.is_own(&row) => true,
                Some(row) if self.judge(context, judged, &row) == OtherToken::Taken => {
                    return self.lose(context, &row);
                }
                _ => false,
            },
        };
        // The holder has no answer yet, and no process leases meanwhile.
        self.lease().since = 0;
        self.phase = Phase::Recreate { rows_are_ours };
    }

    pub(super) fn recreate(&mut self, context: &mut Context<'_>, rows_are_ours: bool) {
        let has_rows = context.tables.rows.iter().any(Option::is_some);
        if context.tables.record.is_some() || (has_rows && !rows_are_ours) {
            return;
        }
        let own = context.world.times();
        let (_, _, clocks) = context.judge(self.held().is_some());
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
        let (judged, _, clocks) = context.judge(self.held().is_some());
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
        known_row: &KnownRow<Purpose>,
        mark: u64,
        expiry: RowExpiry,
    ) -> RowWrite {
        let marks = HeldLanes::on(0).marks_with(known_row.marks(), 0, mark);
        let known = self.known();
        RowWrite {
            token: FRESH_ROW,
            epoch: known.epoch(),
            holder: String::new(),
            lane: 0,
            marks: known.marks(&context.world.layout, known_row.epoch(), &marks),
            expiry,
        }
    }

    /// Swaps the row. Returns the write if the store acknowledged it.
    pub(super) fn swap(
        context: &mut Context<'_>,
        known_row: &mut KnownRow<Purpose>,
        write: RowWrite,
        purpose: Purpose,
    ) -> Option<Acknowledged<Purpose>> {
        let worker = usize::try_from(known_row.worker()).expect("few rows");
        let swapped = context.tables.swap_row(known_row.token(), context.store_ms, worker, &write);
        swapped.then(|| known_row.sent(write, purpose).acknowledged())
    }

    fn renew(&mut self, context: &mut Context<'_>, judged: Judged) {
        let held = self.lease();
        let (start, highest_next) = match held.row.at_barrier() {
            Some(lease) => (lease.start, lease.start),
            None => (held.grant.start, held.highest_next()),
        };
        let limit = limit_for(
            &context.world.layout,
            &LimitRequest {
                old_limit: held.acknowledged().max(held.row.known_row.marks()[0]),
                start,
                highest_next,
                refused: 0,
                now_ms: judged.now_ms,
                reach_ms: context.world.reach_ms(),
            },
        );
        let mut known_row = held.row.known_row.clone();
        let write = self.write(context, &known_row, limit, RowExpiry::After(context.world.ttl()));
        let purpose = Purpose::Renew { limit };
        let Some(renewed) = Self::swap(context, &mut known_row, write, purpose) else {
            self.phase = Phase::Refused(judged);
            return;
        };
        let held = self.lease();
        held.row.known_row = known_row;
        self.acknowledged(context, judged, &renewed);
    }

    /// Leases the row again, from the barrier on. The present lease is used up.
    fn begin_anew(&mut self, context: &mut Context<'_>, judged: Judged) {
        let World { layout, .. } = context.world;
        let mut known_row = self.lease().row.known_row.clone();
        let marks = self.known().marks(layout, known_row.epoch(), known_row.marks());
        let reach_ms = context.world.reach_ms();
        let lease = Lease::from_mark(layout, &marks, 0, judged.now_ms, reach_ms);
        let expiry = RowExpiry::After(context.world.ttl());
        let write = self.write(context, &known_row, lease.limit, expiry);
        let purpose = Purpose::NewEpoch(lease);
        let Some(leased) = Self::swap(context, &mut known_row, write, purpose) else { return };
        self.lease().row.known_row = known_row;
        self.acknowledged(context, judged, &leased);
    }

    /// Notes an acknowledged write of the row.
    fn acknowledged(
        &mut self,
        context: &Context<'_>,
        judged: Judged,
        write: &Acknowledged<Purpose>,
    ) {
        let held = self.lease();
        held.row.acknowledged(judged.store_ms, context.world.proven_ms());
        let limit = held.row.apply(write);
        held.grant.limit = held.grant.limit.max(limit.unwrap_or_default());
        held.unwritten = 0;
        self.stale = None;
        self.looked();
    }

    fn looked(&mut self) {
        self.has_looked = true;
        if let Some(held) = self.held_mut() {
            held.since = 0;
        }
    }

    /// Returns the values by which a row with another token is judged.
    fn check(&self, judged: Judged) -> RowCheck {
        RowCheck {
            epoch: self.known().epoch(),
            limit: self.held().map_or(0, Held::acknowledged),
            max_skew_ms: 0,
            is_store_behind: judged.is_behind,
        }
    }

    /// Judges a row that has another token than this process wrote.
    fn judge(&self, context: &Context<'_>, judged: Judged, row: &Row) -> OtherToken {
        let held = self.held().expect("a row is held");
        match held.row.judge(row, &self.check(judged)) {
            OtherToken::Taken if context.world.breaks(Breaks::LossIsEvidence) => {
                OtherToken::RolledBack
            }
            judged => judged,
        }
    }

    /// Reads the row after the store refused a swap, or instead of one that has to wait.
    fn refused(&mut self, context: &mut Context<'_>, judged: Judged) {
        let held = self.lease();
        let row = context.tables.row(held.worker(), judged.store_ms);
        match (held.row.known_row.resolve(row.as_ref()), row) {
            // The holder waits.
            (Resolution::Unchanged, _) if self.stale.is_some() => self.looked(),
            (Resolution::Unchanged | Resolution::Visible, _) => {}
            (Resolution::Lost, Some(row)) => self.found(context, judged, &row),
            (Resolution::Lost | Resolution::Vanished, _) => self.phase = Phase::Make,
        }
    }

    fn found(&mut self, context: &Context<'_>, judged: Judged, row: &Row) {
        match self.judge(context, judged, row) {
            OtherToken::LastWrite => self.lease().row.known_row.adopt(row),
            OtherToken::CreatedAgain => {
                self.adopt(context, judged, row.clone());
                let epoch = self.known().epoch();
                let held = &mut self.lease().row;
                if held.last_write.is_some() {
                    held.continue_in(epoch);
                }
            }
            OtherToken::RolledBack if context.world.breaks(Breaks::NoEvidence) => {
                let epoch = self.known().epoch();
                let held = &mut self.lease().row;
                held.known_row.adopt(row);
                held.continue_in(epoch);
            }
            OtherToken::RolledBack => {
                self.went_back = true;
                // A mutant decides here: it does not read the row in the new epoch, and writes
                // nothing.
                self.lease().is_given_up = context.world.breaks(Breaks::DecidedBefore);
            }
            OtherToken::Taken => self.lose(context, row),
        }
    }

    /// Ends the lease, because another process seems to have the row.
    fn lose(&mut self, context: &Context<'_>, row: &Row) {
        let limit = self.lease().acknowledged();
        if context.world.breaks(Breaks::NoEvidence) {
            self.looked();
        } else {
            self.note_taken(row, limit);
        }
        if context.world.breaks(Breaks::LoserUsesUp) {
            self.lease().is_given_up = true;
        } else {
            let ended = self.enter(Event::Lost);
            assert!(matches!(ended[..], [Effect::Seal(_)]), "it issues nothing any more");
            self.has_issued = false;
            self.past = None;
        }
    }

    /// Notes a row that another process took from a lease that ends at `limit`.
    fn note_taken(&mut self, row: &Row, limit: u64) {
        self.went_back |= row.marks[0] < limit;
        self.looked();
    }

    /// Continues from a row that was found under another token than that of the last write.
    fn adopt(&mut self, context: &Context<'_>, judged: Judged, row: Row) {
        let check = self.check(judged);
        self.lease().row.adopt(row, &check, Some(context.store_ms));
    }

    /// Reads the row in a new epoch.
    fn enter_epoch(&mut self, context: &mut Context<'_>, judged: Judged) {
        let held = self.lease();
        let row = context.tables.row(held.worker(), judged.store_ms);
        match (held.row.known_row.resolve(row.as_ref()), row) {
            (Resolution::Unchanged | Resolution::Visible, _) => {}
            (Resolution::Lost, Some(row)) => match self.judge(context, judged, &row) {
                OtherToken::Taken => return self.lose(context, &row),
                OtherToken::LastWrite => self.lease().row.known_row.adopt(&row),
                OtherToken::CreatedAgain | OtherToken::RolledBack => {
                    self.adopt(context, judged, row);
                }
            },
            (Resolution::Lost | Resolution::Vanished, _) => {
                self.phase = Phase::Make;
                return;
            }
        }
        let present = Arc::clone(self.known.as_ref().expect("a record was read"));
        self.lease().row.enter(&present, &context.world.layout, 0);
        self.phase = Phase::Entered;
    }

    /// Ends in order: frees the row, and lowers its mark to the issued positions.
    pub(super) fn stop(&mut self, context: &mut Context<'_>) {
        for effect in self.enter(Event::Stopped) {
            let Effect::Release(held) = effect else { continue };
            let may_be_taken =
                held.row.last_write.is_none() || held.unwritten >= context.world.configuration.ttl;
            if may_be_taken && !context.world.breaks(Breaks::LapsedIsReleased) {
                continue;
            }
            let sealed_mark = held.highest_next();
            let mut row = held.row.end(sealed_mark);
            let write = self.write(context, &row.known_row, row.mark, RowExpiry::Released);
            Self::swap(context, &mut row.known_row, write, Purpose::Release);
        }
    }
}
