//! The decisions of the lease protocol, as pure functions that every store, the keeper and the
//! checkers share: which row and lane to take, the range of a lease, whether a clock can be
//! trusted, and what a write with an unknown outcome means.
//!
//! A *row* belongs to one worker id. Every write of a row is one compare-and-swap on its token
//! and sets a fresh random token, so a process knows its own write by that attempt's token alone.

mod choose;
mod held_row;
mod high_water_marks;
mod history;
mod kept;
mod limit;
mod longest_time;
mod lowered_barrier;
mod own_write;
mod relayout;
mod releasing_row;
mod row;
mod skew;
pub mod state;
mod tenure;
mod token;
mod writes;

pub use self::{
    choose::{Choice, choose_row, first_due, usable_lane},
    held_row::{HeldRow, NextLease, OtherToken, RowCheck},
    high_water_marks::{HighWaterMarks, InvalidHighWaterMarks},
    history::{
        BarrierState, Epoch, EpochClocks, History, HistoryVerdict, InvalidHistory, LastWrite,
        NodeTimes,
    },
    kept::{KeptLease, ResumeRefusal, ResumeRequest, next_local_mark},
    limit::{LimitRequest, limit_for},
    longest_time::{LongestTime, ShorterTime},
    lowered_barrier::BarrierStays,
    own_write::OwnWrite,
    relayout::{
        InvalidRelayout, Recorded, Relayout, RelayoutStage, RelayoutVerdict, judge_relayout,
        largest_id_allowed,
    },
    releasing_row::ReleasingRow,
    row::{Row, RowExpiry, RowWrite},
    skew::{ClockCheck, ClockVerdict, StoreReading, judge_clock},
    tenure::{Attempt, Resolution, Tenure},
    token::{InvalidToken, Token},
    writes::{HeldLanes, Lease, Purpose, next_token},
};
