//! Makes the decisions of the lease protocol: which row and lane to take, how far a lease reaches,
//! whether to trust a clock, and what a write with an unknown outcome means.
//!
//! A *row* belongs to one worker id. Every write of a row is one compare-and-swap on its token and
//! sets a fresh random token, so a process knows its own write by that write's token alone.
//!
//! The functions are plain functions of their arguments: none calls a store, reads a clock or
//! sleeps. The keeper (`crates/keeper`) and the models (`tests/models`) call the same code. The
//! caller records a write in its [`KnownRow`] *before* it sends the write, and raises a limit only
//! by an [`Acknowledged`] write. `docs/safety/argument.md` has the whole argument.

mod choose;
mod held_row;
mod high_water_marks;
mod history;
mod known_row;
mod limit;
mod longest_time;
mod lowered_barrier;
mod own_write;
mod planted;
mod relayout;
mod releasing_row;
mod row;
mod saved_lease;
mod skew;
pub mod state;
mod writes;

pub use self::{
    choose::{Choice, choose_row, first_due, usable_lane},
    held_row::{HeldRow, NextLease, OtherToken, RowCheck},
    high_water_marks::{HighWaterMarks, InvalidHighWaterMarks},
    history::{
        BarrierState, Epoch, EpochClocks, History, HistoryVerdict, InvalidHistory, LastWrite,
        NodeTimes,
    },
    known_row::{Acknowledged, Attempt, KnownRow, Resolution, Sent},
    limit::{LimitRequest, limit_for},
    longest_time::{LongestTime, ShorterTime},
    lowered_barrier::BarrierStays,
    own_write::OwnWrite,
    relayout::{
        InvalidRelayout, Recorded, Relayout, RelayoutStage, RelayoutVerdict, judge_relayout,
        largest_id_allowed,
    },
    releasing_row::ReleasingRow,
    row::{InvalidToken, Row, RowExpiry, RowWrite, Token},
    saved_lease::{ResumeRefusal, ResumeRequest, SavedLease, next_local_mark},
    skew::{ClockCheck, ClockVerdict, StoreReading, judge_clock},
    writes::{HeldLanes, Lease, Purpose, next_token},
};
