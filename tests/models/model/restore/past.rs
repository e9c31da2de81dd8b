//! Issues IDs for one past tick: a holder reserves one, checks whether the store lost nothing
//! since, and issues it. The order of steps is `Backfill`'s; the production function decides what
//! the row proves.

use raindrop_core::lease::{OwnWrite, Token};

use super::{
    configuration::{Breaks, duration},
    process::{Context, Process},
    store::Tables,
};

/// The ID of the past tick that a holder reserved under its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Past {
    /// A mutant read the row before the reservation.
    ConfirmedBefore,
    Reserved(u8),
    /// The row confirmed the reservation.
    Confirmed(u8),
}

impl Tables {
    /// Returns whether the past tick is open: each epoch but the first closes it.
    pub(super) fn is_past_open(&self) -> bool {
        self.record.as_ref().is_some_and(|record| !record.history.has_failed_over())
    }
}

impl Process {
    /// Runs one statement of a holder, and returns the ID that it issues, if any; `None` when there
    /// is nothing to do.
    pub(super) fn backfill(&mut self, context: &mut Context<'_>) -> Option<Option<u8>> {
        let world = context.world;
        match self.past.take() {
            None if world.breaks(Breaks::PastConfirmedBefore) => {
                self.past = self.is_confirmed(context).then_some(Past::ConfirmedBefore);
                self.past.map(|_| None)
            }
            before @ (None | Some(Past::ConfirmedBefore)) => {
                let may_reserve = context.tables.is_past_open()
                    && context.tables.past < world.configuration.past
                    && self.has_written_lately(context);
                if !may_reserve {
                    return None;
                }
                let number = context.tables.past;
                context.tables.past += 1;
                self.past = Some(match before {
                    None => Past::Reserved(number),
                    Some(_) => Past::Confirmed(number),
                });
                Some(None)
            }
            Some(Past::Reserved(number)) => {
                let goes_on = if world.breaks(Breaks::PastRecordBefore) {
                    context.tables.is_past_open()
                } else {
                    self.is_confirmed(context)
                };
                self.past = goes_on.then_some(Past::Confirmed(number));
                Some(None)
            }
            Some(Past::Confirmed(number)) => {
                let goes_on = if world.breaks(Breaks::PastRecordBefore) {
                    self.is_confirmed(context)
                } else {
                    context.tables.is_past_open()
                };
                Some(goes_on.then_some(number))
            }
        }
    }

    fn has_written_lately(&self, context: &Context<'_>) -> bool {
        let longest = duration(context.world.configuration.stale_wait);
        let held = self.held().filter(|held| held.row.last_write.is_some());
        held.is_some_and(|held| OwnWrite::is_recent(duration(held.unwritten), longest))
    }

    /// Returns whether the held row shows its last write. A process forgets a reservation together
    /// with the lease that it was made under.
    fn is_confirmed(&self, context: &Context<'_>) -> bool {
        let Some(held) = self.held() else { return false };
        let Some(last) = held.row.last_write else { return false };
        let worker = held.row.known_row.worker();
        let own = OwnWrite { lease: Token::UNUSED, worker, token: last.token };
        let row = context.tables.row(held.worker(), context.store_ms);
        let longest = duration(context.world.configuration.stale_wait);
        own.confirms(&own, row.as_ref(), duration(held.unwritten), longest)
    }
}
