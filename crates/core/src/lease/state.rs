//! The states of a process's lease, and which event leads from one to the next.
//!
//! [`next`] alone decides, from a state and an [`Event`]. It calls no store and reads no clock: it
//! returns the actions that the caller must take as data, in [`Effect`]s. The caller is the
//! keeper's task (`crates/keeper/src/lease/task.rs`). It takes one step at a time, reports the
//! outcome as an event, and carries out every effect in order. A dropped effect would leave a grant
//! unsealed or a row leased. `L` is the caller's type for a lease, `S` for a search.
//!
//! `docs/architecture.md` has the table of transitions, which `state/tests.rs` generates from this
//! code.

use std::time::Duration;

/// How far a process has come with the lease of a namespace. `L` is a lease, `S` a search for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State<L, S> {
    /// The process has not yet looked for a lease in the state file.
    Starting,
    /// No lease. The store's tables, the record or rows may be missing, and are created.
    Preparing(S),
    /// No lease. The process searches for a free row.
    Searching(S),
    /// A row was leased, but the state file does not have the lease yet. Until it has, IDs are
    /// issued from the lease before.
    Arriving {
        /// The new lease.
        lease: L,
        /// The lease before.
        before: Option<Held<L>>,
    },
    /// The process issues IDs from a lease, and renews it.
    Held(Held<L>),
    /// The clock went back. The process looks for another lane of the row, or for another row.
    Moving(Held<L>, S),
    /// The clock went back, and no other lane or row can be used. Claims are refused until one can,
    /// or until the clock has caught up.
    Refusing(Held<L>, S),
    /// The task is stopping: no ID is issued any more. The task also passes through this state
    /// while it enters another one, so that a panic leaves a valid state.
    Ended,
}

/// A lease that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held<L> {
    /// The lease.
    pub lease: L,
    /// Whether the store's tables, record and rows are known to be there.
    pub rows: Rows,
    /// The steady clock when the wall clock was first found ahead, so that renewals are refused.
    pub clock_ahead_since: Option<Duration>,
}

/// Whether a store's tables, and a namespace's record and rows, are known to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// Some may be missing.
    Unchecked,
    /// All were there when the task last looked.
    Checked,
}

/// The outcome of a step of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<L> {
    /// The state file has no lease that can be resumed, or there is no state file.
    NothingSaved,
    /// The lease from the state file was resumed.
    Resumed(L),
    /// The store's tables, the record and the rows are there.
    Prepared,
    /// The row, the record, or rows of the node's worker ids are missing.
    RowsMissing,
    /// The search leased a row.
    Leased(L),
    /// The state file has the new lease, or there is no state file.
    Saved,
    /// The state file failed.
    NotSaved,
    /// A renewal ended, and neither a clock that is ahead nor a failure of the store stopped it.
    ClockTrusted,
    /// A write was refused because the node's wall clock is ahead.
    ClockAhead {
        /// The steady clock.
        now: Duration,
        /// For how long the task keeps the lease nevertheless.
        patience: Duration,
    },
    /// The clock is behind the highest reading under which IDs were issued.
    ClockBack,
    /// The clock is not behind that reading, or has caught up.
    ClockCaughtUp,
    /// Another lane of the row is in use.
    Rotated,
    /// No other lane or row can be used.
    NothingElse,
    /// The row has a token that this process did not set.
    Lost,
    /// A step panicked. As after a crash, nothing is known about what the process leased.
    Panicked,
    /// The task must stop.
    Stopped,
}

/// An action for the task to take after the state has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<L, S> {
    /// Issue from the lease that is held now, and then seal the grant that it replaced.
    Issue,
    /// Seal the grant of a lease that was lost.
    Seal(L),
    /// Seal the grant of a lease that the process gives up, and release its row.
    Release(L),
    /// Let the grant, if IDs are issued from it, be used up to its limit, and let the row expire.
    UseUp(L),
    /// Release the row that a search may have taken.
    Abandon(S),
    /// Report that claims are refused because the clock went back.
    ReportRefused,
}

impl<L, S> State<L, S> {
    /// Returns the lease that IDs are issued from.
    pub const fn held(&self) -> Option<&Held<L>> {
        match self {
            Self::Held(held) | Self::Moving(held, _) | Self::Refusing(held, _) => Some(held),
            Self::Arriving { before, .. } => before.as_ref(),
            Self::Starting | Self::Preparing(_) | Self::Searching(_) | Self::Ended => None,
        }
    }

    /// Returns the lease that IDs are issued from.
    pub const fn held_mut(&mut self) -> Option<&mut Held<L>> {
        match self {
            Self::Held(held) | Self::Moving(held, _) | Self::Refusing(held, _) => Some(held),
            Self::Arriving { before, .. } => before.as_mut(),
            Self::Starting | Self::Preparing(_) | Self::Searching(_) | Self::Ended => None,
        }
    }

    /// Returns whether a row is leased, even if the state file does not have the lease yet.
    pub const fn has_lease(&self) -> bool {
        matches!(self, Self::Arriving { .. }) || self.held().is_some()
    }

    /// Returns whether tables, record and rows are known to be there.
    pub const fn rows(&self) -> Rows {
        match self {
            Self::Starting | Self::Preparing(_) | Self::Ended => Rows::Unchecked,
            Self::Searching(_) | Self::Arriving { before: None, .. } => Rows::Checked,
            Self::Arriving { before: Some(held), .. }
            | Self::Held(held)
            | Self::Moving(held, _)
            | Self::Refusing(held, _) => held.rows,
        }
    }

    /// Returns the search for a row, if no lease is held.
    pub const fn search_mut(&mut self) -> Option<&mut S> {
        match self {
            Self::Preparing(search) | Self::Searching(search) => Some(search),
            _ => None,
        }
    }

    fn without_lease(rows: Rows, search: S) -> Self {
        match rows {
            Rows::Unchecked => Self::Preparing(search),
            Rows::Checked => Self::Searching(search),
        }
    }

    /// Returns the leases, in the order in which they began, and the search.
    fn end(self) -> (Vec<L>, Option<S>) {
        match self {
            Self::Starting | Self::Ended => (Vec::new(), None),
            Self::Preparing(search) | Self::Searching(search) => (Vec::new(), Some(search)),
            Self::Arriving { lease, before } => {
                (before.into_iter().map(|before| before.lease).chain([lease]).collect(), None)
            }
            Self::Held(held) => (vec![held.lease], None),
            Self::Moving(held, search) | Self::Refusing(held, search) => {
                (vec![held.lease], Some(search))
            }
        }
    }
}

impl<L> Held<L> {
    const fn new(lease: L, rows: Rows) -> Self {
        Self { lease, rows, clock_ahead_since: None }
    }
}

/// The result of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition<L, S> {
    /// The state from now on.
    pub state: State<L, S>,
    /// The actions to take, in this order.
    pub effects: Vec<Effect<L, S>>,
}

/// Returns where an event leads; `None` if it cannot happen in this state.
///
/// No lease is forgotten: each one stays in the state or is part of an effect. Neither is a search
/// that may have taken a row, except after a panic.
pub fn next<L, S: Default>(state: State<L, S>, event: Event<L>) -> Option<Transition<L, S>> {
    use Effect::{Abandon, Issue, Release, ReportRefused, UseUp};
    use State::{
        Arriving, Ended, Held as Holding, Moving, Preparing, Refusing, Searching, Starting,
    };
    let rows = state.rows();
    match (state, event) {
        (Starting, Event::NothingSaved) => to(Preparing(S::default()), []),
        (Starting, Event::Resumed(lease)) => {
            to(Holding(Held::new(lease, Rows::Unchecked)), [Issue])
        }
        (Preparing(search), Event::Prepared) => to(Searching(search), []),
        (Preparing(search) | Searching(search), Event::RowsMissing) => to(Preparing(search), []),
        (Searching(_), Event::Leased(lease)) => to(Arriving { lease, before: None }, []),
        (Moving(before, _) | Refusing(before, _), Event::Leased(lease)) => {
            to(Arriving { lease, before: Some(before) }, [])
        }
        (Arriving { lease, before }, Event::Saved) => {
            let release = before.map(|before| Release(before.lease));
            to(Holding(Held::new(lease, rows)), [Issue].into_iter().chain(release))
        }
        (state @ Arriving { .. }, Event::NotSaved) | (state, Event::Panicked) => {
            let (leases, _) = state.end();
            to(State::without_lease(rows, S::default()), leases.into_iter().map(UseUp))
        }
        // The file failed, but no lease depends on it.
        (state @ (Preparing(_) | Searching(_)), Event::NotSaved) => to(state, []),
        (Holding(held), Event::ClockBack) => to(Moving(held, S::default()), []),
        (state @ (Moving(..) | Refusing(..)), Event::ClockBack) => to(state, []),
        (Moving(held, search), Event::NothingElse) => to(Refusing(held, search), [ReportRefused]),
        (state @ Refusing(..), Event::NothingElse) => to(state, []),
        (Moving(held, search) | Refusing(held, search), Event::Rotated | Event::ClockCaughtUp) => {
            to(Holding(held), [Abandon(search)])
        }
        (state @ Holding(_), Event::ClockCaughtUp) => to(state, []),
        (state, Event::Stopped) => {
            let (leases, search) = state.end();
            to(Ended, leases.into_iter().map(Release).chain(search.map(Abandon)))
        }
        (state @ (Holding(_) | Moving(..) | Refusing(..)), event) => while_held(state, event),
        _ => None,
    }
}

/// Handles the events that a held lease has in common, whether or not the clock went back.
fn while_held<L, S: Default>(mut state: State<L, S>, event: Event<L>) -> Option<Transition<L, S>> {
    let held = state.held_mut()?;
    let effect: fn(L) -> Effect<L, S> = match event {
        Event::Prepared => {
            held.rows = Rows::Checked;
            return to(state, []);
        }
        Event::RowsMissing => {
            held.rows = Rows::Unchecked;
            return to(state, []);
        }
        Event::ClockTrusted => {
            held.clock_ahead_since = None;
            return to(state, []);
        }
        Event::ClockAhead { now, patience } => {
            let since = *held.clock_ahead_since.get_or_insert(now);
            if now.saturating_sub(since) < patience {
                return to(state, []);
            }
            Effect::Release
        }
        Event::Lost => Effect::Seal,
        Event::NotSaved => Effect::UseUp,
        _ => return None,
    };
    let (held, search) = match state {
        State::Held(held) => (held, S::default()),
        State::Moving(held, search) | State::Refusing(held, search) => (held, search),
        _ => return None,
    };
    to(State::without_lease(held.rows, search), [effect(held.lease)])
}

/// Returns the transition of an event that can happen.
fn to<L, S>(
    state: State<L, S>,
    effects: impl IntoIterator<Item = Effect<L, S>>,
) -> Option<Transition<L, S>> {
    Some(Transition { state, effects: effects.into_iter().collect() })
}

#[cfg(test)]
mod tests;
