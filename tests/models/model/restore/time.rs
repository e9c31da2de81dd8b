//! Lets time pass: everything else becomes older by a tick. Values that are too old to matter stay
//! unchanged, so that there are finitely many states.

use std::sync::Arc;

use raindrop_core::lease::{
    HighWaterMarks, History, KnownRow, Lease, NextLease, Purpose, Row, state::Event,
};

use super::{
    configuration::{Configuration, PRESENT, TICK_MS, instant},
    process::{Phase, Presence, Process},
    store::{Tables, unwritten},
};

/// How instants become older.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    longest: i64,
    oldest: i64,
}

impl Passing {
    pub(super) fn of(configuration: &Configuration) -> Self {
        let Configuration { ttl, stale_wait, renew, clock_error, .. } = configuration;
        let longest = (*ttl).max(*stale_wait).max(i64::from(*renew));
        Self { longest, oldest: -(longest + 2 + clock_error.abs()) }
    }

    /// Returns an instant a tick later, Unix ms; 0 means none.
    fn instant(self, at_ms: i64) -> i64 {
        if at_ms == 0 { 0 } else { (at_ms - TICK_MS).max(instant(self.oldest)) }
    }

    /// Makes an instant older that a process remembers: no row is written after it and older than
    /// it.
    fn remembered(self, at_ms: &mut i64) {
        *at_ms = self.instant(*at_ms).max(instant(self.oldest + 1));
    }

    fn row(self, row: &mut Arc<Row>) {
        let row = Arc::make_mut(row);
        row.heartbeat_ms = self.instant(row.heartbeat_ms);
        row.expires_ms = self.instant(row.expires_ms);
        row.marks = marks(&row.marks);
    }

    fn history(self, history: &mut History) {
        history.since_ms = self.instant(history.since_ms);
        history.barrier_ms = self.instant(history.barrier_ms);
        history.reached_ms = self.instant(history.reached_ms);
    }

    pub(super) fn tables(self, tables: &mut Tables) {
        tables.rows.iter_mut().flatten().for_each(|row| self.row(row));
        if let Some(record) = &mut tables.record {
            self.history(&mut Arc::make_mut(record).history);
        }
    }

    pub(super) fn process(self, process: &mut Process) {
        if let Some(known) = &mut process.known {
            self.history(Arc::make_mut(known));
        }
        if let Some(stale) = &mut process.stale {
            stale.renewed_ms = self.instant(stale.renewed_ms);
            stale.left = (stale.left - 1).max(0);
        }
        match &mut process.phase {
            Phase::Chosen(known_row) => older(known_row),
            Phase::Ready(known_row, judged) => {
                older(known_row);
                self.remembered(&mut judged.store_ms);
                self.remembered(&mut judged.now_ms);
            }
            Phase::Renew(judged)
            | Phase::Refused(judged)
            | Phase::Enter(judged)
            | Phase::Anew(judged) => {
                self.remembered(&mut judged.store_ms);
                self.remembered(&mut judged.now_ms);
            }
            Phase::Idle | Phase::Recreate { .. } | Phase::Make | Phase::Entered => {}
        }
        process.has_issued = false;
        let Some(held) = process.held_mut() else { return };
        older(&mut held.row.known_row);
        held.unwritten = self.longest.min(held.unwritten + 1);
        held.since = if held.presence != Presence::Here { 0 } else { held.since.saturating_add(1) };
        let waiting = match &mut held.row.next {
            NextLease::AtBarrier(lease) => Some(lease),
            NextLease::None | NextLease::Arriving(_) => None,
        };
        for lease in [Some(&mut held.grant), waiting].into_iter().flatten() {
            let Lease { start, limit, .. } = lease;
            (*start, *limit) = (position(*start), position(*limit));
        }
        match &mut held.row.last_write {
            // The write of a process that took the row meanwhile may be as old.
            Some(last) if held.unwritten == self.longest => {
                last.store_ms = self.instant(last.store_ms);
            }
            Some(last) => self.remembered(&mut last.store_ms),
            None => {}
        }
        if held.is_given_up && held.grant.limit <= PRESENT {
            process.phase = Phase::Idle;
            process.enter(Event::Lost);
        }
    }
}

/// Returns a position a tick later. Positions in the past stay equal.
fn position(position: u64) -> u64 {
    position.saturating_sub(1).max(PRESENT)
}

fn marks(marks: &HighWaterMarks) -> HighWaterMarks {
    HighWaterMarks::all_at(position(marks[0]), marks.lanes())
}

fn older(known_row: &mut KnownRow<Purpose>) {
    let (token, epoch) = (known_row.token(), known_row.epoch());
    let row = unwritten(known_row.worker(), marks(known_row.marks())[0]);
    *known_row = KnownRow::of(&Row { token, epoch, ..row });
}
