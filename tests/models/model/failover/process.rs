//! One process: what it knows, what it sends, and what it makes of answers.
//!
//! The order of steps is the keeper's; every decision is the production function.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    lease::{
        EpochClocks, HeldLanes, History, HistoryVerdict, LastWrite, Lease, LimitRequest,
        OtherToken, Purpose, Resolution, Row, RowExpiry, RowWrite, Tenure, Token, limit_for,
        usable_lane,
    },
    planted::{Bug, planted},
};

use super::{
    configuration::{Breaks, Configuration, World, ms},
    issued::Issued,
    store::{Message, Record, Swap},
};

/// Fresh tokens: no other token of a state is one of them, because they are renamed at its end.
pub(super) const FRESH: [Token; 2] = [Token::from_bits(200), Token::from_bits(201)];

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Process {
    /// How many writes it may still send.
    pub(super) left: u8,
    /// The history as the record told it last, as far as that matters.
    pub(super) known: Option<Arc<History>>,
    pub(super) went_back: bool,
    pub(super) phase: Phase,
    pub(super) role: Role,
    /// What claims are served from; outlives the row when that is lost.
    pub(super) grant: Option<Lease>,
    /// The server and the clock that were read apart from the record, if that is modelled.
    pub(super) surveyed: Option<(usize, i64)>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// A survey.
    #[default]
    Idle,
    /// A second survey, because the row was read in a new epoch.
    Entered,
    /// Reading the row, because its epoch ended.
    Enter,
    /// Reading the row, because the outcome of a write is unknown. A search goes on by the clocks.
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
    /// What limits are computed from.
    pub(super) now_ms: i64,
}

/// What a survey reads in one statement.
#[derive(Clone, Debug)]
pub(super) struct Survey<'a> {
    pub(super) identity: &'a str,
    pub(super) record: &'a Record,
    pub(super) judged: Judged,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Role {
    #[default]
    Free,
    Searching(Tenure<Intent>),
    Held(Held),
    Releasing(Releasing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Intent {
    pub(super) purpose: Purpose,
    store_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) tenure: Tenure<Intent>,
    pub(super) lanes: HeldLanes,
    pub(super) waiting: Option<Lease>,
    /// The last write that was acknowledged.
    pub(super) last_write: LastWrite,
    pub(super) own_tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Releasing {
    pub(super) tenure: Tenure<Intent>,
    lanes: HeldLanes,
    mark: u64,
    /// Whether a lane of it was leased, whose mark may be lowered.
    was_held: bool,
    released: bool,
    refused: bool,
}

impl Role {
    /// An order that does not look at tokens.
    pub(super) const fn kind(&self) -> u8 {
        match self {
            Self::Free => 0,
            Self::Searching(_) => 1,
            Self::Held(_) => 2,
            Self::Releasing(_) => 3,
        }
    }
}

/// What a holder does when nothing else is to be done first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Renew,
    Rotate,
}

/// Its place in the world.
pub(super) struct Context<'a> {
    pub(super) world: &'a World,
    pub(super) index: usize,
    pub(super) issued: &'a mut Issued,
}

impl Context<'_> {
    /// The store's clock as it is remembered with a write; 0 where a ttl is too short to prove
    /// anything, so that equal states are one.
    fn proves(&self, judged: Judged) -> i64 {
        if self.world.keeps_times() { judged.store_ms } else { 0 }
    }

    fn last_write(&self, tenure: &Tenure<Intent>, store_ms: i64) -> LastWrite {
        let Configuration { ttl, breaks, .. } = self.world.configuration;
        // An operator may free the row; its marks then come due when all leases have ended.
        let ttl_ms = match breaks {
            Breaks::TtlBeyondReach => ms(ttl),
            _ => ms(ttl).min(self.world.window_ms(self.index)),
        };
        LastWrite { token: tenure.token(), epoch: tenure.epoch(), store_ms, ttl_ms }
    }

    /// Judges a row with another token than that of its holder.
    fn judge(&self, present: Token, held: &Held, limit: u64, row: &Row) -> OtherToken {
        let skew_ms = ms(self.world.configuration.skew);
        let lease = (held.lanes.present(), limit);
        match LastWrite::judge(Some(&held.last_write), present, row, lease, skew_ms) {
            OtherToken::Taken if held.own_tokens.contains(&row.token) => OtherToken::WentBack,
            judged => judged,
        }
    }

    fn ttl(&self) -> Duration {
        Duration::from_millis(ms(self.world.configuration.ttl).unsigned_abs())
    }
}

impl Process {
    /// Reads identity, record and clock, and acts by them; `None` when there is nothing to do.
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
        match &mut self.role {
            Role::Releasing(_) => None,
            Role::Free => {
                // The row was perhaps read in an earlier epoch, when its marks counted as they are.
                let layout = &context.world.layout;
                usable_lane(layout, &row.marks, judged.now_ms, None)
                    .filter(|_| row.free && is_first)?;
                self.role = Role::Searching(Tenure::of(row));
                Some(Some(self.take(context, judged)))
            }
            Role::Searching(tenure) => {
                if !is_first {
                    return None;
                }
                if tenure.is_unresolved() {
                    self.phase = Phase::Settle(Some(judged));
                    return Some(None);
                }
                Some(Some(self.confirm(context).unwrap_or_else(|| self.take(context, judged))))
            }
            Role::Held(held) => {
                let is_behind = held.tenure.epoch() != present.epoch();
                let has_entered = self.phase == Phase::Entered;
                self.phase = Phase::Idle;
                let is_unsettled = held.tenure.unsettled().is_some();
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
                if held.tenure.is_unresolved() {
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
        }
    }

    fn known(&self) -> Arc<History> {
        Arc::clone(self.known.as_ref().expect("a survey came first"))
    }

    /// The record that the present one is to be replaced by, if the store does not continue the
    /// history of that.
    fn follow(&mut self, context: &Context<'_>, survey: &Survey<'_>) -> Option<Record> {
        let Survey { identity, record, judged } = survey;
        let recorded = &record.history;
        let own = context.world.times(context.index);
        let epoch = self.known.as_ref().map(|known| known.epoch());
        let mut verdict = recorded.judge(Some(identity), epoch);
        if self.went_back && epoch == Some(recorded.epoch()) {
            verdict = HistoryVerdict::WentBack;
        }
        let history = match verdict {
            HistoryVerdict::Continued => recorded.continued(Some(identity), own, None),
            HistoryVerdict::OtherServer | HistoryVerdict::WentBack => {
                // A node's clock that is behind is not bounded.
                let by_node = planted(Bug::BarrierByNodeClock);
                let now_ms = judged.store_ms - if by_node { ms(2) } else { 0 };
                let present = recorded.or_known(self.known.as_deref());
                let mut next = present.next(identity, FRESH[0], EpochClocks::of_store(now_ms), own);
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

    /// Reads the row.
    pub(super) fn read(&mut self, context: &mut Context<'_>, row: &Row) -> Option<Option<Message>> {
        match self.phase {
            Phase::Enter => {
                self.enter_epoch(context, row);
                Some(None)
            }
            Phase::Settle(judged) => {
                self.phase = Phase::Idle;
                Some(self.settle(context, row, judged))
            }
            _ => None,
        }
    }

    /// Up to where the store acknowledged the lease that renewals extend.
    fn acknowledged_limit(&self) -> u64 {
        let waiting = match &self.role {
            Role::Held(held) => held.waiting,
            _ => None,
        };
        waiting.or(self.grant).map_or(0, |lease| lease.limit)
    }

    fn enter_epoch(&mut self, context: &Context<'_>, row: &Row) {
        let present = self.known();
        self.phase = Phase::Entered;
        let limit = self.acknowledged_limit();
        let Role::Held(held) = &mut self.role else { unreachable!("only a holder enters") };
        match held.tenure.resolve(Some(row)) {
            Resolution::Unchanged => {}
            Resolution::Visible if held.tenure.epoch() == present.epoch() => return,
            Resolution::Visible => {}
            Resolution::Lost | Resolution::Vanished => {
                match context.judge(present.epoch(), held, limit, row) {
                    OtherToken::Taken => {
                        (self.role, self.phase) = (Role::Free, Phase::Idle);
                        return;
                    }
                    _ if context.world.breaks(Breaks::WentBackForgetsMarks) => {
                        held.tenure = Tenure::of(row);
                    }
                    _ => held.tenure.went_back(row),
                }
            }
        }
        let configuration = &context.world.configuration;
        let last = held.last_write;
        let skew_ms = match configuration.breaks {
            Breaks::TtlWithoutSkews => 0,
            _ => ms(configuration.skew),
        };
        let is_older = configuration.breaks == Breaks::OlderEpochUnbroken
            && present.since_ms - last.store_ms < last.ttl_ms;
        let is_unbroken = present.is_unbroken(&last, skew_ms) || is_older;
        let waits = held.waiting.is_some();
        let lane = held.lanes.present();
        if configuration.breaks != Breaks::LeftLaneLowered {
            held.lanes = HeldLanes::on(lane);
        }
        if is_unbroken && !waits {
            let own_mark = held.tenure.marks()[lane];
            let layout = &context.world.layout;
            let mut marks = held.tenure.marks().clone();
            if configuration.breaks != Breaks::UnbrokenLanesNotRaised {
                marks = present.marks(layout, held.tenure.epoch(), &marks).with(lane, own_mark);
            }
            held.tenure.continue_in(present.epoch(), marks);
        } else {
            held.tenure.forget_before(present.epoch());
        }
    }

    /// Learns the outcome of the writes that have none.
    fn settle(
        &mut self,
        context: &mut Context<'_>,
        row: &Row,
        judged: Option<Judged>,
    ) -> Option<Message> {
        if let Role::Releasing(_) = &self.role {
            return self.release(context, Some(row));
        }
        let (present, limit) = (self.known().epoch(), self.acknowledged_limit());
        if let Some(tenure) = self.tenure().filter(|tenure| tenure.is_unresolved()) {
            match tenure.resolve(Some(row)) {
                Resolution::Unchanged | Resolution::Visible => {}
                Resolution::Lost | Resolution::Vanished => {
                    let Role::Held(held) = &mut self.role else {
                        self.role = Role::Free;
                        return None;
                    };
                    match context.judge(present, held, limit, row) {
                        OtherToken::LastWrite => held.tenure.went_back(row),
                        OtherToken::WentBack => self.went_back = true,
                        OtherToken::CreatedAgain | OtherToken::Taken => self.role = Role::Free,
                    }
                    return None;
                }
            }
        }
        let confirmation = self.confirm(context);
        let judged = judged.filter(|_| matches!(self.role, Role::Searching(_)));
        confirmation.or_else(|| judged.map(|judged| self.take(context, judged)))
    }

    /// Repeats a write that is visible, if it is of the present epoch.
    fn confirm(&mut self, context: &Context<'_>) -> Option<Message> {
        let present = self.known().epoch();
        let tenure = self.tenure()?;
        let visible = tenure.visible()?;
        if visible.write.epoch != present {
            tenure.forget_before(present);
            return None;
        }
        let write = RowWrite { token: FRESH[0], ..visible.write.clone() };
        let intent = visible.purpose;
        Some(self.send(context, write, intent, false))
    }

    fn take(&mut self, context: &Context<'_>, judged: Judged) -> Message {
        let World { layout, .. } = context.world;
        let Role::Searching(tenure) = &self.role else { unreachable!("it searches") };
        let marks = self.known().marks(layout, tenure.epoch(), tenure.marks());
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
        let is_first = matches!(self.role, Role::Searching(_));
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
        let tenure = self.tenure().expect("a row is known");
        let marks = known.marks(layout, tenure.epoch(), tenure.marks());
        let window_ms = context.world.window_ms(context.index);
        let first_ms = ms(context.world.configuration.first_reach);
        let reach_ms = if is_first { window_ms.min(first_ms) } else { window_ms };
        Lease::from_mark(layout, &marks, lane, judged.now_ms, reach_ms)
    }

    fn begin_anew(&mut self, context: &Context<'_>, judged: Judged) -> Option<Message> {
        let Role::Held(held) = &self.role else { return None };
        let lane = held.lanes.present();
        let lease = self.lease_from_mark(context, lane, judged, false);
        let write = self.write(context, &HeldLanes::on(lane), lane, lease.limit, false);
        let intent = Intent { purpose: Purpose::NewEpoch(lease), store_ms: context.proves(judged) };
        Some(self.send(context, write, intent, false))
    }

    fn renew(&mut self, context: &Context<'_>, judged: Judged) -> Option<Message> {
        let (Role::Held(held), Some(grant)) = (&self.role, &self.grant) else { return None };
        let (lane, lanes) = (held.lanes.present(), held.lanes);
        let Lease { start, limit, .. } = held.waiting.unwrap_or(*grant);
        let request = LimitRequest {
            old_limit: limit.max(held.tenure.marks()[lane]),
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
        let Role::Held(Held { tenure, lanes, waiting: None, .. }) = &self.role else { return None };
        let (lanes, marks) = (*lanes, tenure.marks());
        let left = Some(lanes.present());
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
        let tenure = self.tenure().expect("a row is known");
        let mut marks = lanes.marks_with(tenure.marks(), lane, mark);
        if !planted(Bug::OtherLanesNotRaised) {
            marks = known.marks(layout, tenure.epoch(), &marks);
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

    /// Notes a write before it leaves.
    fn send(
        &mut self,
        context: &Context<'_>,
        write: RowWrite,
        intent: Intent,
        settles: bool,
    ) -> Message {
        self.left -= 1;
        self.phase = Phase::Writing { settles };
        let tenure = self.tenure().expect("a row is known");
        tenure.sent(write.clone(), intent);
        let expected = tenure.token();
        Message { awaited_by: Some(context.index), expected, swap: Swap::Row(write) }
    }

    fn tenure(&mut self) -> Option<&mut Tenure<Intent>> {
        match &mut self.role {
            Role::Free => None,
            Role::Searching(tenure)
            | Role::Held(Held { tenure, .. })
            | Role::Releasing(Releasing { tenure, .. }) => Some(tenure),
        }
    }

    /// Takes note of the store's answer. If a lane is left, its lease issued `all` that it had, or
    /// nothing.
    pub(super) fn answer(&mut self, context: &mut Context<'_>, swapped: bool, all: bool) {
        match std::mem::take(&mut self.phase) {
            Phase::Following { has_entered: true } => self.phase = Phase::Entered,
            Phase::Writing { settles } => match (swapped, &mut self.role) {
                (true, _) => self.acknowledged(context, all),
                (false, role) => {
                    if let Role::Releasing(releasing) = role {
                        releasing.refused = true;
                    }
                    if settles {
                        self.phase = Phase::Settle(None);
                    }
                }
            },
            _ => {}
        }
    }

    /// Gives up waiting: the outcome is unknown.
    pub(super) fn give_up(&mut self) {
        self.phase = match &self.role {
            Role::Releasing(_) => Phase::Settle(None),
            _ => Phase::Idle,
        };
    }

    fn acknowledged(&mut self, context: &mut Context<'_>, all: bool) {
        let Some(tenure) = self.tenure() else { return };
        let Intent { purpose, store_ms } = tenure.acknowledged().purpose;
        let (token, marks) = (tenure.token(), tenure.marks().clone());
        let last_write = context.last_write(tenure, store_ms);
        match std::mem::take(&mut self.role) {
            Role::Searching(tenure) => {
                let Purpose::Lease(lease) = purpose else { unreachable!("it searches") };
                self.install(context, lease);
                self.role = Role::Held(Held {
                    tenure,
                    lanes: HeldLanes::on(lease.lane),
                    waiting: None,
                    last_write,
                    own_tokens: vec![token],
                });
            }
            Role::Held(mut held) => {
                held.lanes.confirmed(&marks);
                held.last_write = last_write;
                held.own_tokens.push(token);
                match purpose {
                    Purpose::Renew { limit } => match &mut held.waiting {
                        Some(lease) => lease.limit = limit,
                        None => {
                            let grant = self.grant.as_mut().expect("a lease is held");
                            grant.limit = grant.limit.max(limit);
                        }
                    },
                    Purpose::Lease(lease) => {
                        let old = self.grant.replace(lease).expect("a lease is held");
                        let end = if all { old.limit } else { old.start };
                        context.issued.add(&old, end);
                        held.lanes.moved_to(lease.lane, end);
                    }
                    Purpose::NewEpoch(lease) => {
                        held.lanes = HeldLanes::on(lease.lane);
                        held.waiting = Some(lease);
                    }
                    Purpose::Release => {}
                }
                self.role = Role::Held(held);
            }
            // The row is free.
            Role::Releasing(_) | Role::Free => {}
        }
    }

    /// Uses another lease from now on.
    fn install(&mut self, context: &mut Context<'_>, lease: Lease) {
        if let Some(old) = self.grant.replace(lease) {
            context.issued.add(&old, old.limit);
        }
    }

    /// Uses the lease that begins at the barrier, whatever its clock says.
    pub(super) fn use_next_lease(&mut self, context: &mut Context<'_>) -> Option<()> {
        let Role::Held(held) = &mut self.role else { return None };
        let lease = held.waiting.take()?;
        self.install(context, lease);
        Some(())
    }

    /// Ends the lease, which issued `all` that it had, or nothing; or a search that may have taken
    /// the row.
    pub(super) fn leave(
        &mut self,
        context: &mut Context<'_>,
        all: bool,
    ) -> Option<Option<Message>> {
        if !matches!(self.phase, Phase::Idle | Phase::Entered) {
            return None;
        }
        let was_held = matches!(self.role, Role::Held(_))
            || context.world.breaks(Breaks::AbandonedMarkNotRaised);
        let (tenure, lanes, mark) = match std::mem::take(&mut self.role) {
            Role::Held(held) => {
                let grant = self.grant.take()?;
                let mut end = if all { grant.limit } else { grant.start };
                context.issued.add(&grant, end);
                if let Some(waiting) = held.waiting {
                    end = waiting.start;
                }
                (held.tenure, held.lanes, end)
            }
            Role::Searching(tenure) if all && tenure.unsettled().is_some() => {
                let mark = tenure.marks()[0];
                (tenure, HeldLanes::on(0), mark)
            }
            _ => return None,
        };
        let (released, refused) = (false, false);
        let mut releasing = Releasing { tenure, lanes, mark, was_held, released, refused };
        releasing.adopt_visible(context);
        self.role = Role::Releasing(releasing);
        if self.tenure()?.is_unresolved() {
            self.phase = Phase::Settle(None);
            return Some(None);
        }
        Some(self.release(context, None))
    }

    /// Writes the row free; `None` when that is done.
    fn release(&mut self, context: &mut Context<'_>, row: Option<&Row>) -> Option<Message> {
        let Role::Releasing(releasing) = &mut self.role else { return None };
        let mut is_done = false;
        if let Some(row) = row.filter(|_| releasing.tenure.is_unresolved()) {
            match releasing.tenure.resolve(Some(row)) {
                Resolution::Unchanged => is_done = releasing.refused,
                Resolution::Visible => releasing.adopt_visible(context),
                Resolution::Lost | Resolution::Vanished => is_done = true,
            }
        }
        if is_done || releasing.released {
            (self.role, self.phase) = (Role::Free, Phase::Idle);
            return None;
        }
        let (lanes, mark) = (releasing.lanes, releasing.mark);
        let write = self.write(context, &lanes, lanes.present(), mark, true);
        let intent = Intent { purpose: Purpose::Release, store_ms: 0 };
        Some(self.send(context, write, intent, true))
    }
}

impl Releasing {
    fn adopt_visible(&mut self, context: &Context<'_>) {
        let Some(visible) = self.tenure.visible() else { return };
        self.lanes.confirmed(&visible.write.marks);
        match visible.purpose.purpose {
            Purpose::Lease(lease) => {
                if !self.was_held {
                    self.lanes = HeldLanes::on(lease.lane);
                } else if lease.lane != self.lanes.present() {
                    self.lanes.moved_to(lease.lane, self.mark);
                }
                self.mark = lease.start;
            }
            Purpose::NewEpoch(lease) => {
                if !context.world.breaks(Breaks::LeftLaneLowered) {
                    self.lanes = HeldLanes::on(lease.lane);
                }
                self.mark = lease.start;
            }
            Purpose::Renew { .. } => {}
            Purpose::Release => self.released = true,
        }
    }
}
