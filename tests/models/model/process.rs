//! One process: its knowledge, the writes that it sends, and its handling of the answers.
//!
//! The order of steps is the keeper's; every decision is the production function.

use std::time::Duration;

use raindrop_core::{
    lease::{
        Acknowledged, Epoch, HeldLanes, HeldRow, HighWaterMarks, KnownRow, Lease, LimitRequest,
        Purpose, ReleasingRow, Resolution, ResumeRequest, Row, RowExpiry, RowWrite, SavedLease,
        Token, choose_row, limit_for, next_token,
        state::{Effect, Event, Held, Rows, State, next},
        usable_lane,
    },
    planted::{Bug, planted},
};

use crate::{
    configuration::{TICK_MS, World},
    grant::Grant,
};

/// The holder of every process: they share it, as containers with one address do.
pub(crate) const HOLDER: String = String::new();

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// How many writes it may still send, in all its lives.
    pub(crate) left: u8,
    /// The state of the lease, as the keeper's task has it.
    state: State<HeldRow<Purpose>, Search>,
    /// The row that the process is releasing; it does nothing else meanwhile.
    releasing: Option<ReleasingRow<Purpose>>,
    /// The grant that serves claims. It outlives the row when that is lost.
    pub(crate) grant: Option<Grant>,
    /// The lease in the state file, which outlives the process.
    pub(crate) kept: Option<SavedLease>,
    keeps_leases: bool,
    /// The write that the process waits for, and the store's answer once there is one.
    pub(crate) waiting: Option<Option<bool>>,
    /// Whether the process must read the row before it sends anything, because the store refused a
    /// write or did not answer it.
    must_read: bool,
}

/// A search: the row that it tries to take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Search(Option<KnownRow<Purpose>>);

/// A write to send; the number is the tick that the clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Acquire(u64),
    Renew(u64),
    Rotate(u64),
    Release,
    /// Repeats a visible write of this process under another token.
    Confirm,
}

/// A write as the process sends it.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) row: usize,
    pub(crate) expected: Token,
    pub(crate) token: Token,
    pub(crate) marks: HighWaterMarks,
}

impl Process {
    pub(crate) fn new(left: u8, keeps_leases: bool) -> Self {
        let mut process = Self {
            left,
            state: State::Starting,
            releasing: None,
            grant: None,
            kept: None,
            keeps_leases,
            waiting: None,
            must_read: false,
        };
        process.start(Event::NothingSaved);
        process
    }

    /// Starts, with the lease that the state file keeps or none; tables, record and rows exist.
    fn start(&mut self, event: Event<HeldRow<Purpose>>) {
        self.state = State::Starting;
        self.enter(event);
        self.enter(Event::Prepared);
    }

    /// Enters the state that follows an event, and ends what the event ends.
    fn enter(&mut self, event: Event<HeldRow<Purpose>>) {
        let state = std::mem::replace(&mut self.state, State::Ended);
        let entered = next(state, event).expect("the event can happen in this state");
        self.state = entered.state;
        for effect in entered.effects {
            let mut seal = || self.grant.as_mut().expect("a lease has a grant").seal();
            match effect {
                Effect::Seal(_) => {
                    seal();
                }
                Effect::Release(held) => self.releasing = Some(held.end(seal())),
                Effect::Issue | Effect::UseUp(_) => {}
                Effect::Abandon(Search(chosen)) => assert_eq!(chosen, None, "it holds a lease"),
                Effect::ReportRefused => unreachable!("another lane is found"),
            }
        }
    }

    fn known_row(&mut self) -> Option<&mut KnownRow<Purpose>> {
        if let Some(releasing) = &mut self.releasing {
            return Some(&mut releasing.known_row);
        }
        match &mut self.state {
            State::Searching(Search(chosen)) => chosen.as_mut(),
            state => state.held_mut().map(|held| &mut held.lease.known_row),
        }
    }

    fn held(&self) -> Option<&HeldRow<Purpose>> {
        self.state.held().map(|held| &held.lease)
    }

    pub(crate) const fn must_read(&self) -> bool {
        self.must_read
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.state == State::Searching(Search(None))
    }

    /// Returns the writes that the process may send now, at any of these readings of the clock.
    pub(crate) fn operations(&self, ticks: std::ops::Range<u64>) -> Vec<Operation> {
        if self.waiting.is_some() || self.must_read {
            return Vec::new();
        }
        if self.releasing.is_some() {
            return vec![Operation::Release];
        }
        match &self.state {
            State::Searching(Search(None)) => Vec::new(),
            State::Searching(Search(Some(known_row))) if known_row.visible().is_none() => {
                ticks.map(Operation::Acquire).collect()
            }
            State::Held(Held { lease, .. }) if lease.known_row.visible().is_none() => {
                let moves =
                    ticks.flat_map(|tick| [Operation::Renew(tick), Operation::Rotate(tick)]);
                moves.chain([Operation::Release]).collect()
            }
            _ => vec![Operation::Confirm],
        }
    }

    /// Reads the rows, all of which may have expired, and chooses one.
    pub(crate) fn choose(
        &mut self,
        world: &World,
        rows: &[Row],
        tick: u64,
        random: u64,
    ) -> Option<()> {
        let now_ms = world.configuration.instant(tick);
        let choice = choose_row(&world.layout, rows, now_ms, 0, 0, random)?;
        *self.state.search_mut()? = Search(Some(KnownRow::of(&rows[choice.index])));
        Some(())
    }

    /// Passes every token in here to `rename`.
    pub(crate) fn rename(&mut self, rename: &mut impl FnMut(&mut Token)) {
        if let Some(releasing) = &mut self.releasing {
            releasing.known_row.rename(rename);
        }
        if let Some(Search(Some(known_row))) = self.state.search_mut() {
            known_row.rename(rename);
        }
        if let Some(held) = self.state.held_mut() {
            held.lease.known_row.rename(rename);
        }
        if let Some(kept) = &mut self.kept {
            rename(&mut kept.token);
        }
    }

    /// Makes and notes a write; `None` if the operation is not possible. `fresh` is a token that
    /// nothing has, as random ones never collide.
    pub(crate) fn send(
        &mut self,
        world: &World,
        operation: Operation,
        fresh: Token,
    ) -> Option<Sent> {
        let (lane, marks, purpose) = self.plan(world, operation)?;
        let released = purpose == Purpose::Release;
        let known_row = self.known_row()?;
        let expected = known_row.token();
        let keeps = matches!(operation, Operation::Renew(_)) && planted(Bug::RenewalKeepsToken);
        let write = RowWrite {
            epoch: Token::UNUSED,
            token: if keeps { expected } else { next_token(expected, || fresh) },
            holder: HOLDER,
            lane,
            marks,
            expiry: if released { RowExpiry::Released } else { RowExpiry::After(Duration::ZERO) },
        };
        let worker = known_row.worker();
        known_row.sent(write.clone(), purpose);
        if let Some(releasing) = &mut self.releasing {
            releasing.sent();
        }
        let row = usize::try_from(worker).expect("few");
        // A process that resumed the lease that this write ends would issue beside the next holder.
        self.kept.take_if(|kept| kept.is_ended_by(worker, &write.marks));
        // On the way back after all faults, a process sends as many as it needs.
        self.left = self.left.saturating_sub(1);
        self.waiting = Some(None);
        Some(Sent { row, expected, token: write.token, marks: write.marks })
    }

    fn plan(
        &mut self,
        world: &World,
        operation: Operation,
    ) -> Option<(usize, HighWaterMarks, Purpose)> {
        let World { configuration, layout } = world;
        let reach_ms = configuration.reach_ticks * TICK_MS;
        match operation {
            Operation::Acquire(tick) => {
                let known = self.known_row()?.marks();
                let now_ms = configuration.instant(tick);
                let lane = usable_lane(layout, known, now_ms, None)
                    .unwrap_or(layout.rollback_initial() as usize);
                let lease = Lease::from_mark(layout, known, lane, now_ms, reach_ms);
                let marks = HeldLanes::on(lane).marks_with(known, lane, lease.limit);
                Some((lane, marks, Purpose::Lease(lease)))
            }
            Operation::Renew(tick) => {
                let mut grant = self.grant?;
                let request = LimitRequest {
                    old_limit: grant.acknowledged,
                    start: grant.start,
                    highest_next: grant.highest_next(),
                    refused: u64::from(grant.is_used_up() && grant.limit == grant.acknowledged),
                    now_ms: configuration.instant(tick),
                    reach_ms,
                };
                let limit = limit_for(layout, &request);
                if planted(Bug::MarkAfterIssuing) {
                    grant.raise_limit(limit);
                    self.grant = Some(grant);
                }
                let held = self.held()?;
                let lane = held.lanes.in_use();
                let marks = held.lanes.marks_with(held.known_row.marks(), lane, limit);
                Some((lane, marks, Purpose::Renew { limit }))
            }
            Operation::Rotate(tick) => {
                let held = self.held()?;
                let (known, now_ms) = (held.known_row.marks(), configuration.instant(tick));
                let lane = usable_lane(layout, known, now_ms, Some(held.lanes.in_use()))?;
                let lease = Lease::from_mark(layout, known, lane, now_ms, reach_ms);
                let marks = held.lanes.marks_with(known, lane, lease.limit);
                Some((lane, marks, Purpose::Lease(lease)))
            }
            Operation::Confirm => {
                let visible = self.known_row()?.visible()?;
                let (lane, marks) = (visible.write.lane, visible.write.marks.clone());
                Some((lane, marks, visible.intent))
            }
            Operation::Release => {
                if self.releasing.is_none() {
                    self.enter(Event::Stopped);
                }
                let ReleasingRow { known_row, lanes, mark, .. } = self.releasing.as_ref()?;
                let lane = lanes.in_use();
                let marks = lanes.marks_with(known_row.marks(), lane, *mark);
                Some((lane, marks, Purpose::Release))
            }
        }
    }

    /// Handles the store's answer.
    pub(crate) fn receive(&mut self) -> Option<()> {
        let answer = self.waiting??;
        self.waiting = None;
        if let Some(releasing) = &mut self.releasing {
            releasing.answered(answer);
        }
        if answer {
            let write = self.known_row()?.last_sent()?.acknowledged();
            self.apply(&write);
        } else {
            self.must_read = true;
        }
        Some(())
    }

    /// Stops waiting for the answer: the outcome is unknown.
    pub(crate) fn time_out(&mut self) -> Option<()> {
        self.waiting.take()?;
        self.must_read = true;
        let forgets = planted(Bug::LostReplyIsFailure);
        if forgets || planted(Bug::GoesOnAfterLowering) {
            self.revive(forgets);
        }
        Some(())
    }

    /// Reads the row of a write whose outcome is unknown.
    pub(crate) fn resolve(&mut self, rows: &[Row]) -> Option<()> {
        let must_read = std::mem::take(&mut self.must_read);
        let worker = self.known_row().filter(|_| must_read)?.worker();
        let row = rows.get(usize::try_from(worker).expect("few"));
        if let Some(releasing) = &mut self.releasing {
            if releasing.resolve(row) || releasing.is_released() {
                self.released();
            }
            return Some(());
        }
        let known_row = self.known_row()?;
        match known_row.resolve(row) {
            Resolution::Unchanged => {}
            Resolution::Visible => {
                if planted(Bug::VisibleIsDurable)
                    && let Some(believed) = known_row.take_visible()
                {
                    self.apply(&believed);
                }
            }
            Resolution::Lost | Resolution::Vanished => match self.state.search_mut() {
                Some(search) => *search = Search(None),
                None => self.enter(Event::Lost),
            },
        }
        Some(())
    }

    /// Searches again, because the row is free or another process has it.
    fn released(&mut self) {
        self.releasing = None;
        self.start(Event::NothingSaved);
    }

    /// Uses the lease again after a release without an answer, as planted bugs do.
    fn revive(&mut self, forgets: bool) {
        let Some(ReleasingRow { mut known_row, lanes, .. }) = self.releasing.take() else { return };
        if forgets {
            known_row.discard_unresolved();
            self.must_read = false;
        }
        if let Some(grant) = &mut self.grant {
            grant.sealed = false;
        }
        let (lease, clock_ahead_since) = (held_row(known_row, lanes.in_use()), None);
        self.state = State::Held(Held { lease, rows: Rows::Checked, clock_ahead_since });
    }

    /// Lets a step panic: the process forgets everything about the rows.
    pub(crate) fn panic(&mut self) {
        (self.releasing, self.waiting, self.must_read) = (None, None, false);
        self.enter(Event::Panicked);
        if matches!(self.state, State::Preparing(_)) {
            self.enter(Event::Prepared);
        }
    }

    /// Does what an acknowledged write allows.
    fn apply(&mut self, write: &Acknowledged<Purpose>) {
        if self.releasing.is_some() {
            return self.released();
        }
        let purpose = *write.intent();
        let Some(held) = self.state.held_mut() else { return self.won(purpose) };
        let limit = held.lease.apply(write);
        let Some(grant) = &mut self.grant else { return };
        if let Some(limit) = limit {
            if planted(Bug::TablePerRenewal) {
                grant.forget_claims();
            }
            if self.keeps_leases {
                grant.acknowledged = grant.acknowledged.max(limit);
            } else {
                grant.raise_limit(limit);
            }
        }
        if let Purpose::Lease(lease) = purpose {
            let new = if self.keeps_leases { Grant::bounded } else { Grant::new };
            let mut old = std::mem::replace(grant, new(grant.row, lease));
            self.enter(Event::ClockBack);
            if let Some(held) = self.state.held_mut() {
                held.lease.arrived(old.seal());
            }
            self.enter(Event::Rotated);
        }
        self.keep();
    }

    /// Writes the acknowledged lease to the state file.
    fn keep(&mut self) {
        let (Some(held), Some(grant)) = (self.held(), &self.grant) else { return };
        self.kept = self.keeps_leases.then(|| SavedLease {
            worker: held.known_row.worker(),
            lane: grant.lane,
            token: held.known_row.token(),
            epoch: Epoch { token: held.known_row.epoch(), ordinal: 1 },
            marks: held.known_row.marks().clone(),
            local_mark: grant.limit,
        });
    }

    /// Returns whether the file can raise the limit. It keeps the lease of the grant, or none.
    pub(crate) fn is_short_of_file(&self) -> bool {
        let is_short = |grant: &Grant| !grant.sealed && grant.limit < grant.acknowledged;
        self.kept.is_some() && self.grant.as_ref().is_some_and(is_short)
    }

    pub(crate) fn raise_local_mark(&mut self, whole: bool) -> Option<()> {
        let (grant, kept) = (self.grant.as_mut()?, self.kept.as_mut()?);
        let local_mark = if whole { kept.limit() } else { grant.limit + 1 };
        if local_mark <= grant.limit || local_mark > kept.limit() {
            return None;
        }
        grant.limit = local_mark;
        if !planted(Bug::LocalMarkAfterIssuing) {
            kept.local_mark = local_mark;
        }
        Some(())
    }

    /// Stops while the store is away, and writes to the file where the sealed grant ended.
    pub(crate) fn stop_away(&mut self) -> Option<()> {
        let sealed_at = self.grant.as_mut()?.seal();
        self.kept.as_mut()?.local_mark = sealed_at;
        self.crash();
        Some(())
    }

    pub(crate) fn resume(
        &mut self,
        world: &World,
        kept: SavedLease,
        rows: &[Row],
        tick: u64,
    ) -> Option<()> {
        let layout = &world.layout;
        let now_ms = world.configuration.instant(tick);
        let request = ResumeRequest {
            layout,
            saved_layout: &layout.canonical(),
            min_worker: 0,
            max_worker: rows.len() as u64 - 1,
            now_ms,
            issued_ahead_ms: 0,
        };
        kept.check(&request).ok()?;
        let row = usize::try_from(kept.worker).expect("few");
        let (lane, start, limit) = (kept.lane, kept.start(layout, now_ms), kept.limit());
        let known_row = if planted(Bug::ResumedTokenUnchecked) {
            KnownRow::of(&rows[row])
        } else {
            kept.known_row()
        };
        self.grant = Some(Grant::bounded(row, Lease { lane, start, limit }));
        self.start(Event::Resumed(held_row(known_row, lane)));
        self.kept = Some(kept);
        Some(())
    }

    fn won(&mut self, purpose: Purpose) {
        let (Some(Search(Some(known_row))), Purpose::Lease(lease)) =
            (self.state.search_mut().map(std::mem::take), purpose)
        else {
            return;
        };
        let row = usize::try_from(known_row.worker()).expect("few");
        // The grant of a row that was lost is sealed, and its lane is not lowered.
        let new = if self.keeps_leases { Grant::bounded } else { Grant::new };
        self.grant = Some(new(row, lease));
        self.enter(Event::Leased(held_row(known_row, lease.lane)));
        self.enter(Event::Saved);
        self.keep();
    }

    /// Issues one ID, and returns its row and position.
    pub(crate) fn issue(&mut self, code: usize, present: u64) -> Option<(usize, usize, u64)> {
        let grant = self.grant.as_mut()?;
        grant.claim(code, present).map(|position| (grant.row, grant.lane, position))
    }

    /// Loses the process's memory; its writes are still under way.
    pub(crate) fn crash(&mut self) {
        let kept = self.kept.take();
        *self = Self { kept, ..Self::new(self.left, self.keeps_leases) };
    }
}

/// There is one epoch, and the writes of a row need no order.
fn held_row(known_row: KnownRow<Purpose>, lane: usize) -> HeldRow<Purpose> {
    let mut held = HeldRow::new(known_row, lane);
    held.own_tokens_mut().clear();
    held
}
