//! One process: its knowledge, the writes that it sends, and its handling of the answers.
//!
//! The order of steps is the keeper's; every decision is the production function.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    lease::{
        EpochClocks, HeldLanes, HeldRow, History, HistoryVerdict, KnownRow, Lease, LimitRequest,
        OtherToken, Purpose, ReleasingRow, Resolution, Row, RowCheck, RowExpiry, RowWrite, Token,
        limit_for,
        state::{Effect, Event, Held, State, next},
        usable_lane,
    },
    planted::{Bug, planted},
};

use super::{
    configuration::{Breaks, Configuration, World, ms},
    issued::Issued,
    store::{Message, Record, Swap},
};

/// Fresh tokens: no other token of a state equals one of them, because each step ends by renaming
/// them.
pub(super) const FRESH: [Token; 2] = [Token::from_bits(200), Token::from_bits(201)];
/// The same, of an operator's epochs.
pub(super) const RAISED: [Token; 2] = [Token::from_bits(202), Token::from_bits(203)];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    /// How many writes it may still send.
    pub(super) left: u8,
    /// The history as the record had it last, as far as that matters.
    pub(super) known: Option<Arc<History>>,
    pub(super) went_back: bool,
    pub(super) phase: Phase,
    /// The state of the lease, as the keeper's task has it.
    pub(super) state: State<HeldRow<Intent>, Search>,
    /// The row that the process is releasing; it does nothing else meanwhile.
    pub(super) releasing: Option<ReleasingRow<Intent>>,
    /// The grant that serves claims. It outlives the row when that is lost.
    pub(super) grant: Option<Lease>,
    /// The server and the clock that were read apart from the record, if that is modelled.
    pub(super) surveyed: Option<(usize, i64)>,
}

/// The next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// A survey.
    #[default]
    Idle,
    /// A second survey, because the row was read in a new epoch.
    Entered,
    /// Reading the row, because the epoch of the row ended.
    Enter,
    /// Reading the row, because the outcome of a write is unknown. A search continues with these
    /// clocks.
    Settle(Option<Judged>),
    /// The answer to a swap of the record.
    Following { has_entered: bool },
    /// The answer to a swap of the row, and whether the row is read if that is refused.
    Writing { settles: bool },
}

/// The clocks as a survey read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Judged {
    pub(super) store_ms: i64,
    /// The time from which limits are computed.
    pub(super) now_ms: i64,
}

/// The values that a survey reads in one statement.
#[derive(Clone, Debug)]
pub(super) struct Survey<'a> {
    pub(super) identity: &'a str,
    pub(super) record: &'a Record,
    pub(super) judged: Judged,
}

/// A search: the row that was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Search(pub(super) Option<KnownRow<Intent>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Intent {
    pub(super) purpose: Purpose,
    store_ms: i64,
}

impl From<Intent> for Purpose {
    fn from(intent: Intent) -> Self {
        intent.purpose
    }
}

/// The operation that a holder begins if no other step must come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Renew,
    Rotate,
}

/// The surroundings of a process.
pub(super) struct Context<'a> {
    pub(super) world: &'a World,
    pub(super) index: usize,
    pub(super) issued: &'a mut Issued,
}

impl Context<'_> {
    /// Returns the store's clock to remember with a write; 0 where a ttl is too short to prove
    /// anything, so that equal states are one.
    fn proves(&self, judged: Judged) -> i64 {
        if self.world.keeps_times() { judged.store_ms } else { 0 }
    }

    /// Returns how long a write of this process surely holds the row.
    fn proven_ms(&self) -> i64 {
        let Configuration { ttl, breaks, .. } = self.world.configuration;
        // An operator may free the row; its marks then come due when all leases have ended.
        match breaks {
            Breaks::TtlBeyondReach => ms(ttl),
            _ => ms(ttl).min(self.world.window_ms(self.index)),
        }
    }

    /// Returns how much clocks may differ when a lease continues as unbroken.
    fn skew_ms(&self) -> i64 {
        let Configuration { skew, breaks, .. } = self.world.configuration;
        if breaks == Breaks::TtlWithoutSkews { 0 } else { ms(skew) }
    }

    fn ttl(&self) -> Duration {
        Duration::from_millis(ms(self.world.configuration.ttl).unsigned_abs())
    }
}

impl Process {
    /// Returns a process that remembers nothing and may send this many writes.
    pub(super) fn new(left: u8) -> Self {
        let mut process = Self {
            left,
            known: None,
            went_back: false,
            phase: Phase::Idle,
            state: State::Ended,
            releasing: None,
            grant: None,
            surveyed: None,
        };
        process.start();
        process
    }

    /// Begins to search; tables, record and row exist.
    pub(super) fn start(&mut self) {
        self.state = State::Starting;
        for event in [Event::NothingSaved, Event::Prepared] {
            assert_eq!(self.enter(event), []);
        }
    }

    /// Enters the state that follows an event, and returns its effects without `Issue`.
    fn enter(&mut self, event: Event<HeldRow<Intent>>) -> Vec<Effect<HeldRow<Intent>, Search>> {
        let state = std::mem::replace(&mut self.state, State::Ended);
        let mut entered = next(state, event).expect("the event can happen in this state");
        self.state = entered.state;
        // The caller exchanges the grant.
        entered.effects.retain(|effect| !matches!(effect, Effect::Issue));
        entered.effects
    }

    /// Returns whether the process holds, tries and releases no row.
    pub(super) fn is_free(&self) -> bool {
        self.state == State::Searching(Search(None)) && self.releasing.is_none()
    }

    pub(super) fn held(&self) -> Option<&HeldRow<Intent>> {
        self.state.held().map(|held| &held.lease)
    }

    pub(super) fn held_mut(&mut self) -> Option<&mut HeldRow<Intent>> {
        self.state.held_mut().map(|held| &mut held.lease)
    }

    /// Reads identity, record and clock, and acts by them; `None` if there is nothing to do.
    pub(super) fn survey(
        &mut self,
        context: &mut Context<'_>,
        survey: &Survey<'_>,
        row: &Row,
        operation: Operation,
    ) -> Option<Option<Message>> {
        if let Some(changed) = self.follow(context, survey) {
            if operation == Operation::Rotate {
                return None;
            }
            let swap = Swap::Record(Arc::new(changed));
            self.phase = Phase::Following { has_entered: self.phase == Phase::Entered };
            self.left -= 1;
            let message =
                Message { awaited_by: Some(context.index), expected: survey.record.token, swap };
            return Some(Some(message));
        }
        let judged = survey.judged;
        let present = self.known();
        let is_first = operation == Operation::Renew;
        if self.releasing.is_some() {
            return None;
        }
        match &mut self.state {
            State::Searching(Search(chosen @ None)) => {
                // The process may have read the row in an earlier epoch, when its marks counted
                // unchanged.
                let layout = &context.world.layout;
                usable_lane(layout, &row.marks, judged.now_ms, None)
                    .filter(|_| row.free && is_first)?;
                *chosen = Some(KnownRow::of(row));
                Some(Some(self.take(context, judged)))
            }
            State::Searching(Search(Some(known_row))) => {
                if !is_first {
                    return None;
                }
                if known_row.is_unresolved() {
                    self.phase = Phase::Settle(Some(judged));
                    return Some(None);
                }
                Some(Some(self.confirm(context).unwrap_or_else(|| self.take(context, judged))))
            }
            State::Held(Held { lease: held, .. }) => {
                let is_behind = held.known_row.epoch() != present.epoch();
                let has_entered = self.phase == Phase::Entered;
                self.phase = Phase::Idle;
                let is_unsettled = held.known_row.unconfirmed().is_some();
                if (is_behind || is_unsettled) && !is_first {
                    return None;
                }
                if is_behind && !has_entered {
                    self.phase = Phase::Enter;
                    return Some(None);
                }
                if is_behind {
                    return Some(Some(self.begin_anew(context, judged)?));
                }
                if held.known_row.is_unresolved() {
                    self.phase = Phase::Settle(None);
                    return Some(None);
                }
                if is_unsettled {
                    return Some(self.confirm(context));
                }
                Some(Some(match operation {
                    Operation::Renew => self.renew(context, judged)?,
                    Operation::Rotate => self.rotate(context, judged)?,
                }))
            }
            _ => unreachable!("no other state waits for a survey"),
        }
    }

    fn known(&self) -> Arc<History> {
        Arc::clone(self.known.as_ref().expect("a survey came first"))
    }

    /// Returns the record that must replace the present one, if the store does not continue its
    /// history.
    fn follow(&mut self, context: &Context<'_>, survey: &Survey<'_>) -> Option<Record> {
        let Survey { identity, record, judged } = survey;
        let recorded = &record.history;
        let own = context.world.times(context.index);
        let epoch = self.known.as_ref().map(|known| known.epoch());
        let known = self.known.as_ref().map(|known| known.present_epoch());
        let mut verdict = recorded.judge(Some(identity), known);
        if self.went_back && epoch == Some(recorded.epoch()) {
            verdict = HistoryVerdict::RolledBack;
        }
        let history = match verdict {
            HistoryVerdict::Continued => recorded
                .continued(Some(identity), own, None)
                .used_by(own, judged.store_ms)
                .without_unused_times(judged.store_ms),
            HistoryVerdict::OtherServer | HistoryVerdict::RolledBack => {
                // Nothing bounds how far a node's clock may be behind.
                let by_node = planted(Bug::BarrierByNodeClock);
                let now_ms = judged.store_ms - if by_node { ms(2) } else { 0 };
                let present = recorded.or_known(self.known.as_deref());
                let mut next = present.next(identity, FRESH[0], EpochClocks::of_store(now_ms), own);
                next = next.begun_by(verdict);
                if context.world.breaks(Breaks::BarrierWithoutReach) {
                    next.barrier_ms = recorded.barrier_ms.max(now_ms);
                }
                next
            }
        };
        if history == *recorded {
            if epoch != Some(recorded.epoch()) {
                self.went_back = false;
            }
            self.known = Some(Arc::new(history));
            return None;
        }
        Some(Record { token: FRESH[1], history })
    }

    /// Reads the row while the store's clock shows this time.
    pub(super) fn read(
        &mut self,
        context: &mut Context<'_>,
        row: &Row,
        store_ms: i64,
    ) -> Option<Option<Message>> {
        match self.phase {
            Phase::Enter => {
                self.enter_epoch(context, row, store_ms);
                Some(None)
            }
            Phase::Settle(judged) => {
                self.phase = Phase::Idle;
                Some(self.settle(context, row, judged))
            }
            _ => None,
        }
    }

    /// Returns the values by which a row with another token is judged.
    fn check(&self, context: &Context<'_>) -> RowCheck {
        let waiting = self.held().and_then(HeldRow::at_barrier);
        RowCheck {
            epoch: self.known().epoch(),
            limit: waiting.or(self.grant).map_or(0, |lease| lease.limit),
            max_skew_ms: ms(context.world.configuration.skew),
            is_store_behind: false,
        }
    }

    fn enter_epoch(&mut self, context: &mut Context<'_>, row: &Row, store_ms: i64) {
        let (present, check) = (self.known(), self.check(context));
        self.phase = Phase::Entered;
        let held = self.held_mut().expect("only a holder enters");
        match held.known_row.resolve(Some(row)) {
            Resolution::Visible if held.known_row.epoch() == present.epoch() => return,
            Resolution::Unchanged | Resolution::Visible => {}
            Resolution::Lost | Resolution::Vanished => match held.judge(row, &check) {
                OtherToken::Taken => {
                    self.phase = Phase::Idle;
                    return self.lose(context);
                }
                OtherToken::LastWrite => held.known_row.adopt(row),
                _ if context.world.breaks(Breaks::WentBackForgetsMarks) => {
                    held.known_row = KnownRow::of(row);
                }
                _ => held.adopt(row.clone(), &check, Some(store_ms)),
            },
        }
        let (layout, lanes, marks) =
            (&context.world.layout, held.lanes, held.known_row.marks().clone());
        held.enter(&present, layout, context.skew_ms());
        match context.world.configuration.breaks {
            Breaks::LeftLaneLowered => held.lanes = lanes,
            Breaks::UnbrokenLanesNotRaised if held.known_row.epoch() == present.epoch() => {
                held.known_row.continue_in(present.epoch(), marks);
            }
            _ => {}
        }
    }

    /// Ends the lease at once, because another process has the row.
    fn lose(&mut self, context: &mut Context<'_>) {
        let ended = self.enter(Event::Lost);
        assert!(matches!(ended[..], [Effect::Seal(_)]));
        let grant = self.grant.take().expect("a lease is held");
        context.issued.add(&grant, grant.limit);
    }

    /// Resolves the writes whose outcome is unknown.
    fn settle(
        &mut self,
        context: &mut Context<'_>,
        row: &Row,
        judged: Option<Judged>,
    ) -> Option<Message> {
        if self.releasing.is_some() {
            return self.release(context, Some(row));
        }
        let check = self.check(context);
        let known_row = self.known_row().filter(|known_row| known_row.is_unresolved());
        if let Some(Resolution::Lost | Resolution::Vanished) =
            known_row.map(|known_row| known_row.resolve(Some(row)))
        {
            match &mut self.state {
                State::Searching(search) => *search = Search(None),
                State::Held(Held { lease, .. }) => match lease.judge(row, &check) {
                    OtherToken::LastWrite => lease.known_row.adopt(row),
                    OtherToken::RolledBack => self.went_back = true,
                    OtherToken::CreatedAgain | OtherToken::Taken => self.lose(context),
                },
                _ => unreachable!("no other state writes"),
            }
            return None;
        }
        let confirmation = self.confirm(context);
        let judged = judged.filter(|_| matches!(self.state, State::Searching(Search(Some(_)))));
        confirmation.or_else(|| judged.map(|judged| self.take(context, judged)))
    }

    /// Repeats a visible write, if it is of the present epoch.
    fn confirm(&mut self, context: &Context<'_>) -> Option<Message> {
        let present = self.known().epoch();
        let known_row = self.known_row()?;
        let visible = known_row.visible()?;
        if visible.write.epoch != present {
            known_row.forget_before(present);
            return None;
        }
        let write = RowWrite { token: FRESH[0], ..visible.write.clone() };
        let intent = visible.intent;
        Some(self.send(context, write, intent, false))
    }

    fn take(&mut self, context: &Context<'_>, judged: Judged) -> Message {
        let World { layout, .. } = context.world;
        let known_row = self.known_row().expect("a row was chosen").clone();
        let marks = self.known().marks(layout, known_row.epoch(), known_row.marks());
        let lane = usable_lane(layout, &marks, judged.now_ms, None)
            .unwrap_or(layout.rollback_initial() as usize);
        self.take_lane(context, &HeldLanes::on(lane), lane, judged)
    }

    fn take_lane(
        &mut self,
        context: &Context<'_>,
        lanes: &HeldLanes,
        lane: usize,
        judged: Judged,
    ) -> Message {
        let is_first = self.held().is_none();
        let lease = self.lease_from_mark(context, lane, judged, is_first);
        let write = self.write(context, lanes, lane, lease.limit, false);
        let intent = Intent { purpose: Purpose::Lease(lease), store_ms: context.proves(judged) };
        self.send(context, write, intent, true)
    }

    fn lease_from_mark(
        &mut self,
        context: &Context<'_>,
        lane: usize,
        judged: Judged,
        is_first: bool,
    ) -> Lease {
        let (known, layout) = (self.known(), &context.world.layout);
        let known_row = self.known_row().expect("a row is known");
        let marks = known.marks(layout, known_row.epoch(), known_row.marks());
        let window_ms = context.world.window_ms(context.index);
        let first_ms = ms(context.world.configuration.first_reach);
        let reach_ms = if is_first { window_ms.min(first_ms) } else { window_ms };
        Lease::from_mark(layout, &marks, lane, judged.now_ms, reach_ms)
    }

    fn begin_anew(&mut self, context: &Context<'_>, judged: Judged) -> Option<Message> {
        let lane = self.held()?.lanes.in_use();
        let lease = self.lease_from_mark(context, lane, judged, false);
        let write = self.write(context, &HeldLanes::on(lane), lane, lease.limit, false);
        let intent = Intent { purpose: Purpose::NewEpoch(lease), store_ms: context.proves(judged) };
        Some(self.send(context, write, intent, false))
    }

    fn renew(&mut self, context: &Context<'_>, judged: Judged) -> Option<Message> {
        let (held, grant) = (self.held()?, self.grant?);
        let (lane, lanes) = (held.lanes.in_use(), held.lanes);
        let Lease { start, limit, .. } = held.at_barrier().unwrap_or(grant);
        let request = LimitRequest {
            old_limit: limit.max(held.known_row.marks()[lane]),
            start,
            highest_next: start,
            refused: 0,
            now_ms: judged.now_ms,
            reach_ms: context.world.window_ms(context.index),
        };
        let limit = limit_for(&context.world.layout, &request);
        let write = self.write(context, &lanes, lane, limit, false);
        let intent = Intent { purpose: Purpose::Renew { limit }, store_ms: context.proves(judged) };
        Some(self.send(context, write, intent, true))
    }

    fn rotate(&mut self, context: &Context<'_>, judged: Judged) -> Option<Message> {
        let held = self.held().filter(|held| held.at_barrier().is_none())?;
        let (lanes, marks) = (held.lanes, held.known_row.marks());
        let left = Some(lanes.in_use());
        let lane = usable_lane(&context.world.layout, marks, judged.now_ms, left)?;
        Some(self.take_lane(context, &lanes, lane, judged))
    }

    fn write(
        &mut self,
        context: &Context<'_>,
        lanes: &HeldLanes,
        lane: usize,
        mark: u64,
        released: bool,
    ) -> RowWrite {
        let (known, layout) = (self.known(), &context.world.layout);
        let known_row = self.known_row().expect("a row is known");
        let mut marks = lanes.marks_with(known_row.marks(), lane, mark);
        if !planted(Bug::OtherLanesNotRaised) {
            marks = known.marks(layout, known_row.epoch(), &marks);
        }
        RowWrite {
            token: FRESH[0],
            epoch: known.epoch(),
            holder: String::new(),
            lane,
            marks,
            expiry: if released { RowExpiry::Released } else { RowExpiry::After(context.ttl()) },
        }
    }

    /// Notes a write before it is sent.
    fn send(
        &mut self,
        context: &Context<'_>,
        write: RowWrite,
        intent: Intent,
        settles: bool,
    ) -> Message {
        self.left -= 1;
        self.phase = Phase::Writing { settles };
        let known_row = self.known_row().expect("a row is known");
        known_row.sent(write.clone(), intent);
        let expected = known_row.token();
        Message { awaited_by: Some(context.index), expected, swap: Swap::Row(write) }
    }

    fn known_row(&mut self) -> Option<&mut KnownRow<Intent>> {
        if let Some(releasing) = &mut self.releasing {
            return Some(&mut releasing.known_row);
        }
        match &mut self.state {
            State::Searching(Search(chosen)) => chosen.as_mut(),
            state => state.held_mut().map(|held| &mut held.lease.known_row),
        }
    }

    /// Handles the store's answer. If the process leaves a lane, the lease of that lane issued
    /// `all` of the positions in it, or none.
    pub(super) fn answer(&mut self, context: &mut Context<'_>, swapped: bool, all: bool) {
        match std::mem::take(&mut self.phase) {
            Phase::Following { has_entered: true } => self.phase = Phase::Entered,
            Phase::Writing { settles } => {
                if let Some(releasing) = &mut self.releasing {
                    releasing.answered(swapped);
                }
                if swapped {
                    self.acknowledged(context, all);
                } else if settles {
                    self.phase = Phase::Settle(None);
                }
            }
            _ => {}
        }
    }

    /// Stops waiting for the answer: the outcome is unknown.
    pub(super) fn give_up(&mut self) {
        let is_releasing = self.releasing.is_some();
        self.phase = if is_releasing { Phase::Settle(None) } else { Phase::Idle };
    }

    fn acknowledged(&mut self, context: &mut Context<'_>, all: bool) {
        let Some(sent) = self.known_row().and_then(KnownRow::last_sent) else { return };
        let write = sent.acknowledged();
        let Intent { purpose, store_ms } = *write.intent();
        if self.releasing.is_some() {
            return self.released();
        }
        let ttl_ms = context.proven_ms();
        if let State::Searching(Search(chosen)) = &mut self.state {
            let Purpose::Lease(lease) = purpose else { unreachable!("it searches") };
            let mut held = HeldRow::new(chosen.take().expect("a row was chosen"), lease.lane);
            held.acknowledged(store_ms, ttl_ms);
            self.install(context, lease);
            for event in [Event::Leased(held), Event::Saved] {
                assert_eq!(self.enter(event), []);
            }
            return;
        }
        let held = self.held_mut().expect("a lease is held");
        held.acknowledged(store_ms, ttl_ms);
        let limit = held.apply(&write);
        let grant = self.grant.as_mut().expect("a lease is held");
        grant.limit = grant.limit.max(limit.unwrap_or_default());
        if let Purpose::Lease(lease) = purpose {
            let old = std::mem::replace(grant, lease);
            let end = if all { old.limit } else { old.start };
            context.issued.add(&old, end);
            self.enter(Event::ClockBack);
            self.held_mut().expect("a lease is held").arrived(end);
            self.enter(Event::Rotated);
        }
    }

    /// Searches again, because the row is free or another process has it.
    fn released(&mut self) {
        (self.releasing, self.phase) = (None, Phase::Idle);
        self.start();
    }

    /// Uses another lease from now on.
    fn install(&mut self, context: &mut Context<'_>, lease: Lease) {
        if let Some(old) = self.grant.replace(lease) {
            context.issued.add(&old, old.limit);
        }
    }

    /// Uses the lease that begins at the barrier, whatever its clock says.
    pub(super) fn use_next_lease(&mut self, context: &mut Context<'_>) -> Option<()> {
        let held = self.held_mut()?;
        let lease = held.at_barrier()?;
        held.come_due();
        held.arrived(lease.start);
        self.install(context, lease);
        Some(())
    }

    /// Ends the lease, which issued `all` of the positions in it, or none; or ends a search that
    /// may have taken the row.
    pub(super) fn leave(
        &mut self,
        context: &mut Context<'_>,
        all: bool,
    ) -> Option<Option<Message>> {
        if !matches!(self.phase, Phase::Idle | Phase::Entered) {
            return None;
        }
        let may_leave = match &self.state {
            State::Searching(Search(Some(known_row))) => all && known_row.unconfirmed().is_some(),
            state => state.has_lease(),
        };
        if self.releasing.is_some() || !may_leave {
            return None;
        }
        for effect in self.enter(Event::Stopped) {
            self.releasing = match effect {
                Effect::Release(held) => {
                    let grant = self.grant.take()?;
                    let end = if all { grant.limit } else { grant.start };
                    context.issued.add(&grant, end);
                    Some(held.end(end))
                }
                Effect::Abandon(Search(known_row)) => known_row.map(|known_row| {
                    if context.world.breaks(Breaks::AbandonedMarkNotRaised) {
                        let mark = known_row.marks()[0];
                        ReleasingRow::of_lease(known_row, HeldLanes::on(0), mark)
                    } else {
                        ReleasingRow::of_search(known_row)
                    }
                }),
                _ => unreachable!("a stop gives back"),
            };
        }
        if self.known_row()?.is_unresolved() {
            self.phase = Phase::Settle(None);
            return Some(None);
        }
        Some(self.release(context, None))
    }

    /// Writes the row free; `None` when that is done.
    fn release(&mut self, context: &mut Context<'_>, row: Option<&Row>) -> Option<Message> {
        let releasing = self.releasing.as_mut()?;
        let left = releasing.lanes;
        let row = row.filter(|_| releasing.known_row.is_unresolved());
        let is_done = row.is_some_and(|row| releasing.resolve(Some(row)));
        let visible = releasing.known_row.visible().map(|visible| visible.intent.purpose);
        if let Some(Purpose::NewEpoch(_)) = visible
            && context.world.breaks(Breaks::LeftLaneLowered)
        {
            releasing.lanes = left;
        }
        if is_done || releasing.is_released() {
            self.released();
            return None;
        }
        releasing.sent();
        let (lanes, mark) = (releasing.lanes, releasing.mark);
        let write = self.write(context, &lanes, lanes.in_use(), mark, true);
        let intent = Intent { purpose: Purpose::Release, store_ms: 0 };
        Some(self.send(context, write, intent, true))
    }
}
