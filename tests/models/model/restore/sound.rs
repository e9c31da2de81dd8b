//! Explores the unbroken rules: every state of every configuration.

use super::{
    configuration::{Breaks, Configuration, Counts, Restored},
    report::explore,
    world::{ANEW, EPOCH, FREED, PAST, PENDING, WAITED},
};
use crate::sound::is_large;

/// Starts wait, so that all holders check first: no ID is issued twice at all.
pub(super) const WAITING: Configuration = Configuration {
    name: "a backup, and starts that wait",
    processes: 2,
    rows: 1,
    is_last_outside: false,
    window: 3,
    ttl: 2,
    renew: 1,
    stale_wait: 2,
    restores: 1,
    restored: Restored::Whole,
    age: 3,
    clock_error: 0,
    epochs: 0,
    raises: 0,
    remembers: 8,
    releases: 0,
    state_files: 0,
    cuts: 0,
    past: 0,
    counts: Counts::All,
    breaks: Breaks::Nothing,
    recovers: true,
    shows: &[EPOCH, WAITED],
};

/// A process crashed once that had a row which no present process may lease.
pub(super) const OUTSIDE: Configuration = Configuration {
    name: "a backup, starts that wait, and a crashed row that nobody may lease",
    rows: 2,
    is_last_outside: true,
    shows: &[EPOCH, WAITED, FREED],
    ..WAITING
};

/// A crashed process resumes its lease from a state file.
pub(super) const KEPT: Configuration = Configuration {
    name: "a backup, starts that wait, and a state file",
    state_files: 1,
    ..WAITING
};

/// A holder loses the store for a long time, and leases the row again in an epoch that is older
/// than the backup.
pub(super) const CUT_OFF: Configuration = Configuration {
    name: "an epoch, a backup, and a holder that was cut off",
    window: 1,
    epochs: 1,
    cuts: 1,
    ..WAITING
};

pub(super) const WAITING_ROWS: Configuration = Configuration {
    name: "a backup of two rows, and starts that wait",
    rows: 2,
    window: 2,
    ttl: 1,
    shows: &[WAITED],
    ..WAITING
};

/// Holders issue IDs for a past time.
pub(super) const BACKFILL: Configuration = Configuration {
    name: "a backup, and IDs for a past time",
    past: 2,
    shows: &[EPOCH, PAST],
    ..WAITING
};

/// A holder loses the store for any length of time.
pub(super) const BACKFILL_CUT_OFF: Configuration = Configuration {
    name: "a backup, IDs for a past time, and a holder that was cut off",
    cuts: 1,
    shows: &[PAST],
    ..BACKFILL
};

/// No process waits, and holders check late: those that have checked issue no ID twice.
pub(super) const LOOKED: Configuration = Configuration {
    name: "a backup, and processes that have looked",
    stale_wait: 0,
    renew: 3,
    age: 0,
    counts: Counts::Looked,
    shows: &[EPOCH],
    ..WAITING
};

/// Nothing is lost. Rows expire, are left, and are released by an operator.
pub(super) const LAWFUL: Configuration = Configuration {
    name: "nothing lost",
    restores: 0,
    releases: 1,
    counts: Counts::All,
    shows: &[],
    ..LOOKED
};

/// Nothing is lost. More epochs begin than the record remembers, before the processes check.
pub(super) const FORGOTTEN: Configuration = Configuration {
    name: "epochs that are forgotten",
    epochs: 2,
    remembers: 2,
    releases: 0,
    ..LAWFUL
};

/// After a restore the store's clock is ahead, by the reach of a lease.
pub(super) const CLOCK_AHEAD: Configuration = Configuration {
    name: "a store clock ahead",
    window: 2,
    renew: 1,
    clock_error: 2,
    shows: &[PENDING],
    ..LOOKED
};

pub(super) const CLOCK_BEHIND: Configuration =
    Configuration { name: "a store clock behind", clock_error: -2, ..CLOCK_AHEAD };

/// Rows expire early, and the store's clock is behind.
pub(super) const LAPSED_BEHIND: Configuration = Configuration {
    name: "starts that wait, leases that lapse, and a store clock behind",
    ttl: 1,
    stale_wait: 2,
    age: 3,
    cuts: 1,
    recovers: false,
    shows: &[],
    ..CLOCK_BEHIND
};

/// Starts wait, and the store's clock is behind.
pub(super) const ROWS_BEHIND: Configuration = Configuration {
    name: "a backup of two rows, starts that wait, and a store clock behind",
    ttl: 2,
    clock_error: -2,
    recovers: false,
    shows: &[],
    ..WAITING_ROWS
};

/// Rows are deleted while the store's clock is behind.
pub(super) const DELETED_BEHIND: Configuration = Configuration {
    name: "deleted rows and a store clock behind",
    restored: Restored::NoRows,
    counts: Counts::All,
    stale_wait: 2,
    shows: &[],
    ..CLOCK_BEHIND
};

/// An operator raises marks after a restore, before any process writes.
pub(super) const RAISED: Configuration = Configuration {
    name: "raised marks",
    raises: 1,
    counts: Counts::All,
    shows: &[ANEW],
    ..LOOKED
};

macro_rules! explored {
    ($($name:ident: $world:expr),+ $(,)?) => {$(
        #[test]
        fn $name() {
            explore(&$world);
        }
    )+};
}

explored!(
    a_backup_and_starts_that_wait: WAITING,
    a_backup_and_ids_for_a_past_time: BACKFILL,
    a_crashed_row_that_nobody_may_lease: OUTSIDE,
    a_backup_and_a_state_file: KEPT,
    an_epoch_a_backup_and_a_holder_that_was_cut_off: CUT_OFF,
    rows_and_starts_that_wait: Configuration {
        name: "older rows, and starts that wait",
        restored: Restored::Rows,
        ..WAITING
    },
    a_record_and_starts_that_wait: Configuration {
        name: "an older record, and starts that wait",
        restored: Restored::Record,
        shows: &[],
        ..WAITING
    },
    deleted_rows_and_starts_that_wait: Configuration {
        name: "deleted rows, and starts that wait",
        restored: Restored::NoRows,
        shows: &[],
        ..WAITING
    },
    a_backup_and_processes_that_have_looked: LOOKED,
    a_record_and_processes_that_have_looked: Configuration {
        name: "an older record, and processes that have looked",
        restored: Restored::Record,
        shows: &[],
        ..LOOKED
    },
    a_record_that_is_deleted: Configuration {
        name: "a deleted record",
        restored: Restored::NoRecord,
        // If no process holds a row any more, no process knows which layout the rows have.
        recovers: false,
        ..LOOKED
    },
    rows_that_are_deleted: Configuration {
        name: "deleted rows",
        restored: Restored::NoRows,
        shows: &[],
        ..LOOKED
    },
    a_store_that_is_emptied: Configuration {
        name: "an emptied store",
        restored: Restored::Nothing,
        shows: &[],
        ..LOOKED
    },
    a_store_clock_ahead: CLOCK_AHEAD,
    a_store_clock_behind: CLOCK_BEHIND,
    a_lapsed_lease_and_a_store_clock_behind: LAPSED_BEHIND,
    deleted_rows_and_a_store_clock_behind: DELETED_BEHIND,
    raised_marks: RAISED,
    nothing_lost: LAWFUL,
    epochs_that_are_forgotten: FORGOTTEN,
    nothing_lost_of_two_rows:
        Configuration { name: "nothing lost of two rows", rows: 2, releases: 0, ..LAWFUL },
);

#[test]
fn a_backup_of_two_rows_and_starts_that_wait() {
    if is_large() {
        explore(&WAITING_ROWS);
    }
}

#[test]
fn a_backup_ids_for_a_past_time_and_a_cut() {
    if is_large() {
        explore(&BACKFILL_CUT_OFF);
    }
}
