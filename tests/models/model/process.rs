//! One process: what it knows, what it sends, and what it makes of answers.
//!
//! The order of steps is the keeper's; every decision is the production function.

use std::time::Duration;

use raindrop_core::{
    lease::{
        HeldLanes, HighWaterMarks, KeptLease, Lease, LimitRequest, Purpose, Resolution,
        ResumeRequest, Row, RowExpiry, RowWrite, Tenure, Token, choose_row, limit_for, next_token,
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
    index: usize,
    /// How many writes it has sent.
    pub(crate) sent: u8,
    /// The row that it tries to take.
    search: Option<Tenure<Purpose>>,
    pub(crate) held: Option<Held>,
    /// What claims are served from; outlives the row when that is lost.
    pub(crate) grant: Option<Grant>,
    /// The lease in its state file, which outlives it.
    pub(crate) kept: Option<KeptLease>,
    keeps_leases: bool,
    /// The write that it waits for, and the store's answer once there is one.
    pub(crate) waiting: Option<Option<bool>>,
    /// A write was refused or has no answer: the row is read before anything else is sent.
    must_read: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    tenure: Tenure<Purpose>,
    lanes: HeldLanes,
    /// It is being given back: where the next lease of its lane may begin.
    leaving: Option<u64>,
}

/// A write to be sent; the number is the tick that the clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Acquire(u64),
    Renew(u64),
    Rotate(u64),
    Release,
    /// A write of ours that is visible, under another token.
    Confirm,
}

/// A write as it leaves the process.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) row: usize,
    pub(crate) expected: Token,
    pub(crate) write: RowWrite,
}

impl Process {
    pub(crate) fn new(index: usize, keeps_leases: bool) -> Self {
        Self {
            index,
            sent: 0,
            search: None,
            held: None,
            grant: None,
            kept: None,
            keeps_leases,
            waiting: None,
            must_read: false,
        }
    }

    fn tenure(&mut self) -> Option<&mut Tenure<Purpose>> {
        match &mut self.held {
            Some(held) => Some(&mut held.tenure),
            None => self.search.as_mut(),
        }
    }

    pub(crate) const fn must_read(&self) -> bool {
        self.must_read
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.search.is_none() && self.held.is_none()
    }

    /// The writes that it may send now, at a clock of `ticks` readings.
    pub(crate) fn operations(&self, ticks: std::ops::Range<u64>) -> Vec<Operation> {
        if self.waiting.is_some() || self.must_read {
            return Vec::new();
        }
        match &self.held {
            Some(held) if held.leaving.is_some() => vec![Operation::Release],
            Some(Held { tenure, .. }) if tenure.visible().is_some() => vec![Operation::Confirm],
            Some(_) => {
                let moves =
                    ticks.flat_map(|tick| [Operation::Renew(tick), Operation::Rotate(tick)]);
                moves.chain([Operation::Release]).collect()
            }
            None => match &self.search {
                Some(tenure) if tenure.visible().is_some() => vec![Operation::Confirm],
                Some(_) => ticks.map(Operation::Acquire).collect(),
                None => Vec::new(),
            },
        }
    }

    /// Reads the rows, all of which may have expired, and settles on one.
    pub(crate) fn choose(
        &mut self,
        world: &World,
        rows: &[Row],
        tick: u64,
        random: u64,
    ) -> Option<()> {
        let now_ms = world.configuration.instant(tick);
        let choice = choose_row(&world.layout, rows, now_ms, 0, 0, random)?;
        self.search = Some(Tenure::of(&rows[choice.index]));
        Some(())
    }

    /// Makes and notes a write; `None` when the operation is not to be had.
    pub(crate) fn send(&mut self, world: &World, operation: Operation) -> Option<Sent> {
        // One that nobody else ever sends: random ones never meet.
        let fresh = Token::from_bits((self.index * 64 + usize::from(self.sent) + 1) as u128);
        let (lane, marks, purpose) = self.plan(world, operation)?;
        let released = purpose == Purpose::Release;
        let tenure = self.tenure()?;
        let expected = tenure.token();
        let keeps = matches!(operation, Operation::Renew(_)) && planted(Bug::RenewalKeepsToken);
        let write = RowWrite {
            epoch: Token::UNUSED,
            token: if keeps { expected } else { next_token(expected, || fresh) },
            holder: HOLDER,
            lane,
            marks,
            expiry: if released { RowExpiry::Released } else { RowExpiry::After(Duration::ZERO) },
        };
        let worker = tenure.worker();
        tenure.sent(write.clone(), purpose);
        let row = usize::try_from(worker).expect("few");
        // Whoever resumed what this write ends would issue beside the next holder.
        self.kept.take_if(|kept| kept.is_ended_by(worker, &write.marks));
        self.sent += 1;
        self.waiting = Some(None);
        Some(Sent { row, expected, write })
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
                let known = self.search.as_ref()?.marks();
                let now_ms = configuration.instant(tick);
                let lane = usable_lane(layout, known, now_ms, None)
                    .unwrap_or(layout.rollback_initial() as usize);
                let lease = Lease::from_mark(layout, known, lane, now_ms, reach_ms);
                let marks = HeldLanes::on(lane).marks_with(known, lane, lease.limit);
                Some((lane, marks, Purpose::Lease(lease)))
            }
            Operation::Renew(tick) => {
                let (held, grant) = (self.held.as_ref()?, self.grant.as_mut()?);
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
                }
                let lane = held.lanes.present();
                let marks = held.lanes.marks_with(held.tenure.marks(), lane, limit);
                Some((lane, marks, Purpose::Renew { limit }))
            }
            Operation::Rotate(tick) => {
                let held = self.held.as_ref()?;
                let (known, now_ms) = (held.tenure.marks(), configuration.instant(tick));
                let lane = usable_lane(layout, known, now_ms, Some(held.lanes.present()))?;
                let lease = Lease::from_mark(layout, known, lane, now_ms, reach_ms);
                let marks = held.lanes.marks_with(known, lane, lease.limit);
                Some((lane, marks, Purpose::Lease(lease)))
            }
            Operation::Confirm => {
                let visible = self.tenure()?.visible()?;
                let (lane, marks) = (visible.write.lane, visible.write.marks.clone());
                Some((lane, marks, visible.purpose))
            }
            Operation::Release => {
                let (held, grant) = (self.held.as_mut()?, self.grant.as_mut()?);
                let mark = *held.leaving.get_or_insert_with(|| grant.seal());
                let lane = held.lanes.present();
                Some((
                    lane,
                    held.lanes.marks_with(held.tenure.marks(), lane, mark),
                    Purpose::Release,
                ))
            }
        }
    }

    /// Takes note of the store's answer.
    pub(crate) fn receive(&mut self) -> Option<()> {
        let answer = self.waiting??;
        self.waiting = None;
        if answer {
            let purpose = self.tenure()?.acknowledged().purpose;
            self.apply(purpose);
        } else {
            self.must_read = true;
        }
        Some(())
    }

    /// Gives up waiting: the outcome is unknown.
    pub(crate) fn time_out(&mut self) -> Option<()> {
        self.waiting.take()?;
        self.must_read = true;
        let forgets = planted(Bug::LostReplyIsFailure);
        let goes_on = forgets || planted(Bug::GoesOnAfterLowering);
        if let Some(held) = self.held.as_mut().filter(|held| held.leaving.is_some() && goes_on) {
            held.leaving = None;
            if let Some(grant) = &mut self.grant {
                grant.sealed = false;
            }
            if forgets {
                held.tenure.discard_unresolved();
                self.must_read = false;
            }
        }
        Some(())
    }

    /// Reads the row of a write whose outcome is unknown.
    pub(crate) fn resolve(&mut self, rows: &[Row]) -> Option<()> {
        let must_read = std::mem::take(&mut self.must_read);
        let tenure = self.tenure().filter(|_| must_read)?;
        let row = usize::try_from(tenure.worker()).expect("few");
        match tenure.resolve(rows.get(row)) {
            Resolution::Unchanged => {}
            Resolution::Visible => self.saw_own_write(),
            Resolution::Lost | Resolution::Vanished => (self.search, self.held) = (None, None),
        }
        Some(())
    }

    /// A write of ours is visible: it counts once a later one is acknowledged, unless the row is
    /// being given back.
    fn saw_own_write(&mut self) {
        if planted(Bug::VisibleIsDurable)
            && let Some(believed) = self.tenure().and_then(Tenure::take_visible)
        {
            return self.apply(believed.purpose);
        }
        let Some(Held { tenure, lanes, leaving: Some(mark) }) = &mut self.held else { return };
        let Some(visible) = tenure.visible() else { return };
        lanes.confirmed(&visible.write.marks);
        match visible.purpose {
            Purpose::Lease(lease) => {
                lanes.moved_to(lease.lane, *mark);
                *mark = lease.start;
            }
            // There is one epoch.
            Purpose::Renew { .. } | Purpose::NewEpoch(_) => {}
            Purpose::Release => self.held = None,
        }
    }

    /// Does what an acknowledged write allows.
    fn apply(&mut self, purpose: Purpose) {
        let Some(held) = &mut self.held else {
            self.won(purpose);
            return;
        };
        held.lanes.confirmed(held.tenure.marks());
        let Some(grant) = &mut self.grant else { return };
        match purpose {
            Purpose::Renew { limit } => {
                if planted(Bug::TablePerRenewal) {
                    grant.forget_claims();
                }
                if self.keeps_leases {
                    grant.acknowledged = grant.acknowledged.max(limit);
                } else {
                    grant.raise_limit(limit);
                }
            }
            Purpose::Lease(lease) => {
                let new = if self.keeps_leases { Grant::bounded } else { Grant::new };
                let mut old = std::mem::replace(grant, new(grant.row, lease));
                held.lanes.moved_to(lease.lane, old.seal());
            }
            Purpose::NewEpoch(_) => {}
            Purpose::Release => {
                self.held = None;
                return;
            }
        }
        self.keep();
    }

    /// The state file gets the lease as it was acknowledged.
    fn keep(&mut self) {
        let (Some(held), Some(grant)) = (&self.held, &self.grant) else { return };
        self.kept = self.keeps_leases.then(|| KeptLease {
            worker: held.tenure.worker(),
            lane: grant.lane,
            token: held.tenure.token(),
            epoch: held.tenure.epoch(),
            marks: held.tenure.marks().clone(),
            local_mark: grant.limit,
        });
    }

    /// Whether the file can raise the limit. It keeps the lease of the grant, or none.
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

    /// The file gets where the sealed grant ended.
    pub(crate) fn stop_away(&mut self) -> Option<()> {
        let sealed_at = self.grant.as_mut()?.seal();
        self.kept.as_mut()?.local_mark = sealed_at;
        self.crash();
        Some(())
    }

    pub(crate) fn resume(
        &mut self,
        world: &World,
        kept: KeptLease,
        rows: &[Row],
        tick: u64,
    ) -> Option<()> {
        let layout = &world.layout;
        let now_ms = world.configuration.instant(tick);
        let request = ResumeRequest {
            layout,
            kept_layout: &layout.canonical(),
            min_worker: 0,
            max_worker: rows.len() as u64 - 1,
            now_ms,
            issued_ahead_ms: 0,
        };
        kept.check(&request).ok()?;
        let row = usize::try_from(kept.worker).expect("few");
        let (lane, start, limit) = (kept.lane, kept.start(layout, now_ms), kept.limit());
        let tenure = if planted(Bug::ResumedTokenUnchecked) {
            Tenure::of(&rows[row])
        } else {
            kept.tenure()
        };
        self.grant = Some(Grant::bounded(row, Lease { lane, start, limit }));
        self.held = Some(Held { tenure, lanes: HeldLanes::on(lane), leaving: None });
        self.kept = Some(kept);
        Some(())
    }

    fn won(&mut self, purpose: Purpose) {
        let (Some(tenure), Purpose::Lease(lease)) = (self.search.take(), purpose) else { return };
        let row = usize::try_from(tenure.worker()).expect("few");
        // The grant of a row that was lost is sealed, and its lane is not lowered.
        let new = if self.keeps_leases { Grant::bounded } else { Grant::new };
        self.grant = Some(new(row, lease));
        self.held = Some(Held { tenure, lanes: HeldLanes::on(lease.lane), leaving: None });
        self.keep();
    }

    /// Issues one ID; where it was issued.
    pub(crate) fn issue(&mut self, code: usize, present: u64) -> Option<(usize, usize, u64)> {
        let grant = self.grant.as_mut()?;
        grant.claim(code, present).map(|position| (grant.row, grant.lane, position))
    }

    /// Loses its memory; what it sent is still under way.
    pub(crate) fn crash(&mut self) {
        let kept = self.kept.take();
        *self = Self { sent: self.sent, kept, ..Self::new(self.index, self.keeps_leases) };
    }
}
