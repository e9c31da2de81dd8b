//! Breaks one rule or premise at a time: each must lead to an ID that is issued twice, or to an
//! epoch though nothing was lost.

use super::{
    configuration::{Breaks, Configuration, Restored},
    report::find,
    sound::{
        BACKFILL, BACKFILL_CUT_OFF, CLOCK_AHEAD, CUT_OFF, DELETED_BEHIND, FORGOTTEN, KEPT,
        LAPSED_BEHIND, LAWFUL, LOOKED, OUTSIDE, RAISED, ROWS_BEHIND, WAITING, WAITING_ROWS,
    },
    world::{LAWFUL as NOTHING_LOST, PAST_UNIQUE, UNIQUE},
};

macro_rules! breaks {
    ($($name:ident: $breaks:ident, $property:ident in $world:expr),+ $(,)?) => {$(
        #[test]
        fn $name() {
            find($property, &Configuration { breaks: Breaks::$breaks, ..$world });
        }
    )+};
}

breaks!(
    no_evidence: NoEvidence, UNIQUE in WAITING_ROWS,
    a_loss_that_counts_as_evidence: LossIsEvidence, NOTHING_LOST in LAWFUL,
    a_loser_that_uses_its_range_up: LoserUsesUp, UNIQUE in LOOKED,
    a_decision_before_the_epoch_stands: DecidedBefore, UNIQUE in LOOKED,
    a_barrier_by_clocks_that_differ: BarrierByWrongClock, UNIQUE in ROWS_BEHIND,
    a_lease_in_an_epoch_without_a_barrier: LeasedWhilePending, UNIQUE in CLOCK_AHEAD,
    a_row_created_by_a_clock_that_is_behind: MadeByWrongClock, UNIQUE in DELETED_BEHIND,
    a_start_that_does_not_wait: NoWait, UNIQUE in WAITING,
    a_start_that_counts_its_own_rows: OwnRowsCount, UNIQUE in OUTSIDE,
    a_start_that_looks_once: NotLookedAtAgain, UNIQUE in WAITING,
    a_lapsed_lease_that_goes_on: LapsedGoesOn, UNIQUE in KEPT,
    a_lapsed_lease_that_begins_anew: LapsedBeginsAnew, UNIQUE in CUT_OFF,
    a_lease_that_is_resumed_blindly: ResumedBlindly, UNIQUE in KEPT,
    a_lapsed_row_that_is_released: LapsedIsReleased, UNIQUE in KEPT,
    an_id_for_a_past_time_that_no_row_confirms: PastUnconfirmed, PAST_UNIQUE in BACKFILL,
    a_row_that_is_read_before_the_reservation: PastConfirmedBefore, PAST_UNIQUE in BACKFILL,
    a_record_that_is_read_before_the_row: PastRecordBefore, PAST_UNIQUE in BACKFILL,
    an_old_write_that_confirms: OldWriteConfirms, PAST_UNIQUE in BACKFILL_CUT_OFF,
    a_restore_that_nobody_remembers: NobodyRemembers, PAST_UNIQUE in BACKFILL,
    marks_that_are_not_raised: NotRaised, UNIQUE in RAISED,
    a_forgotten_epoch_that_counts_as_lost: ForgottenIsLost, NOTHING_LOST in FORGOTTEN,
    epochs_told_apart_by_time: EpochsByTime, NOTHING_LOST in FORGOTTEN,
    a_restore_while_a_start_waits: RestoredInWait, UNIQUE in WAITING,
    a_restore_after_a_start_has_waited: RestoredAfterWait, UNIQUE in WAITING,
    a_backup_of_a_namespace_at_rest: AtRest, UNIQUE in WAITING,
    // Once the clock is right, a process that had taken the row takes the lapsed holder's write for
    // an older one.
    a_lapsed_lease_that_goes_on_while_the_store_clock_is_behind: LapsedGoesOn, UNIQUE in LAPSED_BEHIND,
);

/// Premise: a backup that is younger than a last write may be shows that write.
#[test]
fn a_young_backup() {
    find(PAST_UNIQUE, &Configuration { age: 1, ..BACKFILL_CUT_OFF });
}

/// Premise: the rows show nothing of a counter that is restored without them.
#[test]
fn a_counter_that_is_restored_alone() {
    find(PAST_UNIQUE, &Configuration { restored: Restored::Counter, ..BACKFILL });
}
