//! A process without a row: it chooses one, waits if the store is stale, and swaps.

use std::sync::Arc;

use raindrop_core::lease::{
    Choice, ClockVerdict, HeldRow, History, KnownRow, Lease, Purpose, Row, RowExpiry, RowWrite,
    choose_row, state::Event, usable_lane,
};

use super::{
    configuration::{Breaks, World, ms},
    process::{Context, Held, Judged, Phase, Presence, Process},
    store::FRESH_ROW,
};

/// A store in which no holder has renewed for longer than living ones let pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stale {
    /// The heartbeat of the newest row that was not released.
    pub(super) renewed_ms: i64,
    /// For how many ticks new leases wait.
    pub(super) left: i64,
}

impl Process {
    /// Takes one step of a process without a row; `None` when there is nothing to do.
    pub(super) fn search(&mut self, context: &mut Context<'_>, random: u64) -> Option<()> {
        match std::mem::take(&mut self.phase) {
            Phase::Idle => self.choose(context, random)?,
            Phase::Chosen(known_row) => self.look_again(context, known_row),
            Phase::Ready(known_row, judged) => self.take(context, known_row, judged),
            Phase::Make => self.make(context),
            // The holder planned this step before it lost its row.
            _ => {}
        }
        Some(())
    }

    /// Reads the record; `None` if no lease begins now.
    fn survey(&mut self, context: &mut Context<'_>) -> Option<Judged> {
        let record = context.record()?;
        let (judged, verdict, clocks) = context.judge(false);
        self.follow(context, &record.history, clocks, None);
        let may_begin =
            !self.known().lacks_barrier() || context.world.breaks(Breaks::LeasedWhilePending);
        (may_begin && !matches!(verdict, ClockVerdict::Ahead(_))).then_some(judged)
    }

    /// Chooses a row, and creates the missing ones if there is none.
    fn choose(&mut self, context: &mut Context<'_>, random: u64) -> Option<()> {
        let Some(record) = context.record() else {
            let has_rows = context.tables.rows.iter().any(Option::is_some);
            self.recreate(context, false);
            return (!has_rows).then_some(());
        };
        if self.known.is_none() && (!record.has_rows || context.tables.lacks_rows()) {
            self.make(context);
            return Some(());
        }
        let Some(judged) = self.survey(context) else { return Some(()) };
        let World { layout, .. } = context.world;
        let known = self.known();
        let as_usable = |mut row: Row| {
            row.marks = known.marks(layout, row.epoch, &row.marks);
            row
        };
        let rows = (0..context.world.leasable()).filter_map(|worker| {
            context.tables.row(worker, judged.store_ms).filter(|row| row.free).map(as_usable)
        });
        let rows: Vec<Row> = rows.filter(|_| record.has_rows).collect();
        let chosen = choose_row(layout, &rows, judged.now_ms, 0, 0, random);
        let looks_once = context.world.breaks(Breaks::NotLookedAtAgain);
        // The time in which a process finds no row counts for the wait, too.
        let waits = (chosen.is_none() || looks_once) && self.stale_store(context, judged);
        let Some(Choice { index, .. }) = chosen else {
            if !record.has_rows || context.tables.lacks_rows() {
                self.phase = Phase::Make;
            }
            return Some(());
        };
        if !(waits && looks_once) {
            self.phase = Phase::Chosen(KnownRow::of(&rows[index]));
        }
        Some(())
    }

    fn look_again(&mut self, context: &mut Context<'_>, known_row: KnownRow<Purpose>) {
        if context.tables.record.is_none() {
            return;
        }
        self.phase = Phase::Chosen(known_row);
        let Some(judged) = self.survey(context) else { return };
        if !context.world.breaks(Breaks::NotLookedAtAgain) && self.stale_store(context, judged) {
            return;
        }
        if self.stale.is_some() && self.free_outside(context, judged) {
            return;
        }
        let Phase::Chosen(known_row) = std::mem::take(&mut self.phase) else { return };
        if context.record().is_some_and(|record| record.has_rows) {
            self.phase = Phase::Ready(known_row, judged);
        }
    }

    /// Frees the row that no process may lease, after the wait. Returns whether it did.
    fn free_outside(&mut self, context: &mut Context<'_>, judged: Judged) -> bool {
        let World { layout, configuration, .. } = context.world;
        let wait_ms = ms(configuration.stale_wait);
        let outside = (context.world.leasable()..configuration.rows).find_map(|worker| {
            let row = context.tables.row(worker, judged.store_ms)?;
            let is_stale = judged.store_ms - row.heartbeat_ms > wait_ms;
            (row.free && row.expires_ms > 0 && is_stale).then_some((worker, row))
        });
        let Some((worker, row)) = outside.filter(|_| !judged.is_behind) else { return false };
        let history = self.known();
        let write = RowWrite {
            token: FRESH_ROW,
            epoch: history.epoch(),
            holder: String::new(),
            lane: row.lane,
            marks: row.marks_when_released(layout, history, judged.store_ms),
            expiry: RowExpiry::Released,
        };
        context.tables.swap_row(row.token, context.store_ms, worker, &write);
        let newest_ms = context.tables.newest_heartbeat_ms(configuration.rows);
        if let (Some(stale), Some(newest_ms)) = (&mut self.stale, newest_ms) {
            stale.renewed_ms = newest_ms;
        }
        true
    }

    /// Returns the stale store if new leases must still wait for it.
    pub(super) fn stale_store(&mut self, context: &Context<'_>, judged: Judged) -> bool {
        let wait = context.world.configuration.stale_wait;
        if wait == 0 || context.world.breaks(Breaks::NoWait) {
            return false;
        }
        // A clock that is known to be behind proves no heartbeat young.
        let is_stale =
            |renewed_ms: &i64| judged.is_behind || judged.store_ms - *renewed_ms > ms(wait);
        let counted = if context.world.breaks(Breaks::OwnRowsCount) {
            context.world.leasable()
        } else {
            context.tables.rows.len()
        };
        let newest_ms = context.tables.newest_heartbeat_ms(counted).filter(is_stale);
        self.stale.take_if(|stale| !judged.is_behind && Some(stale.renewed_ms) != newest_ms);
        let Some(renewed_ms) = newest_ms else { return false };
        self.stale.get_or_insert(Stale { renewed_ms, left: wait }).left > 0
    }

    /// Swaps the row that was chosen.
    fn take(
        &mut self,
        context: &mut Context<'_>,
        mut known_row: KnownRow<Purpose>,
        judged: Judged,
    ) {
        let World { layout, .. } = context.world;
        let known: Arc<History> = self.known.clone().expect("a record was read");
        let marks = known.marks(layout, known_row.epoch(), known_row.marks());
        let lane = usable_lane(layout, &marks, judged.now_ms, None).unwrap_or(0);
        let reach_ms = context.world.reach_ms();
        let lease = Lease::from_mark(layout, &marks, lane, judged.now_ms, reach_ms);
        let expiry = RowExpiry::After(context.world.ttl());
        let write = self.write(context, &known_row, lease.limit, expiry);
        if Self::swap(context, &mut known_row, write, Purpose::Lease(lease)).is_none() {
            let worker = usize::try_from(known_row.worker()).expect("few rows");
            let row = context.tables.row(worker, context.store_ms);
            if row.is_some_and(|row| row.token == known_row.token()) {
                self.phase = Phase::Chosen(known_row);
            }
            return;
        }
        let mut row = HeldRow::new(known_row, lane);
        row.acknowledged(judged.store_ms, context.world.proven_ms());
        (self.has_looked, self.stale) = (true, None);
        self.enter(Event::Leased(Held {
            row,
            grant: lease,
            since: 0,
            unwritten: 0,
            is_given_up: false,
            presence: Presence::Here,
        }));
        self.enter(Event::Saved);
    }
}
