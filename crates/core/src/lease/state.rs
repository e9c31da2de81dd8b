//! The states of a process's lease, and which event leads from one to the next.
//!
//! [`next`] alone decides. Whoever runs it calls the store and reads the clocks, tells what came of it
//! as an [`Event`], and does what the [`Effect`]s say. `docs/architecture.md` has the table.

use std::time::Duration;

/// What a process has of the lease of a namespace: a lease `L`, and a search for one, `S`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State<L, S> {
    /// The state file was not asked for a lease yet.
    Starting,
    /// No lease: tables, record and rows may be missing.
    Preparing(S),
    /// No lease: a free row is sought.
    Searching(S),
    /// A row was leased, and the state file does not have that yet. Until it has, IDs are issued from
    /// the lease before.
    Arriving {
        /// The new lease.
        lease: L,
        /// The lease before.
        before: Option<Held<L>>,
    },
    /// IDs are issued from a lease, which is renewed.
    Held(Held<L>),
    /// The clock went back: another lane of the row is sought, or another row.
    Moving(Held<L>, S),
    /// The clock went back, and there is no other lane or row: claims are refused until there is one or
    /// the clock has caught up.
    Refusing(Held<L>, S),
    /// The task is being stopped: nothing is issued any more. Also while another state is entered, so
    /// that a panic is survived.
    Ended,
}

/// A lease that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held<L> {
    /// The lease.
    pub lease: L,
    /// What is known of the store.
    pub rows: Rows,
    /// Since when renewals are refused because the wall clock is ahead, on the steady clock.
    pub clock_ahead_since: Option<Duration>,
}

/// What is known of a store's tables, and of a namespace's record and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// Some may be missing.
    Unchecked,
    /// All were there.
    Checked,
}

/// What a step of the task came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<L> {
    /// The state file keeps no lease that can be resumed, or there is none.
    NothingKept,
    /// The lease that the state file keeps was resumed.
    Resumed(L),
    /// Tables, record and rows are there.
    Prepared,
    /// The row, the record, or rows of the node's worker ids are missing.
    RowsMissing,
    /// The search leased a row.
    Leased(L),
    /// The state file has the new lease, or there is no state file.
    Kept,
    /// The state file failed.
    NotKept,
    /// A renewal was not refused because of the clock, and the store did not fail.
    ClockTrusted,
    /// A write was refused because the wall clock is ahead.
    ClockAhead {
        /// The steady clock.
        now: Duration,
        /// For how long a lease is held nevertheless.
        patience: Duration,
    },
    /// The clock is behind the highest reading that IDs were issued under.
    ClockBack,
    /// The clock is not behind that, or has caught up.
    ClockCaughtUp,
    /// Another lane of the row is used.
    Rotated,
    /// No other lane or row can be used.
    NothingElse,
    /// The row has another token.
    Lost,
    /// A step panicked: as after a crash, nothing is known of what the process leased.
    Panicked,
    /// The task is to stop.
    Stopped,
}

/// What is to be done once the state has changed, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<L, S> {
    /// Issue from the lease that is held now. The grant before is sealed.
    Issue,
    /// Seal the grant of a lease that was lost.
    Seal(L),
    /// Seal the grant of a lease that was left, and release its row.
    Release(L),
    /// Let the grant, if IDs are issued from it, be used up to its limit, and the row expire.
    UseUp(L),
    /// Release the row that a search may have taken.
    Abandon(S),
    /// Report that claims are refused because the clock went back.
    ReportRefused,
}

impl<L, S> State<L, S> {
    /// The lease that IDs are issued from.
    pub const fn held(&self) -> Option<&Held<L>> {
        match self {
            Self::Held(held) | Self::Moving(held, _) | Self::Refusing(held, _) => Some(held),
            Self::Arriving { before, .. } => before.as_ref(),
            Self::Starting | Self::Preparing(_) | Self::Searching(_) | Self::Ended => None,
        }
    }

    /// The lease that IDs are issued from.
    pub const fn held_mut(&mut self) -> Option<&mut Held<L>> {
        match self {
            Self::Held(held) | Self::Moving(held, _) | Self::Refusing(held, _) => Some(held),
            Self::Arriving { before, .. } => before.as_mut(),
            Self::Starting | Self::Preparing(_) | Self::Searching(_) | Self::Ended => None,
        }
    }

    /// Whether a row is leased, be it that the state file does not have that yet.
    pub const fn has_lease(&self) -> bool {
        matches!(self, Self::Arriving { .. }) || self.held().is_some()
    }

    /// What is known of the store.
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

    /// The search for a row while no lease is held.
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

    /// Ends what is under way: the leases, the one that IDs are issued from first, and the search.
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

/// Where an event leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition<L, S> {
    /// The state from now on.
    pub state: State<L, S>,
    /// What is to be done then.
    pub effects: Vec<Effect<L, S>>,
}

/// Returns where an event leads; `None` if it cannot happen in this state.
///
/// No lease is forgotten: it stays in the state or is in an effect. Nor is a search that may have taken
/// a row, but after a panic.
pub fn next<L, S: Default>(state: State<L, S>, event: Event<L>) -> Option<Transition<L, S>> {
    use Effect::{Abandon, Issue, Release, ReportRefused, UseUp};
    use State::{
        Arriving, Ended, Held as Holding, Moving, Preparing, Refusing, Searching, Starting,
    };
    let rows = state.rows();
    match (state, event) {
        (Starting, Event::NothingKept) => to(Preparing(S::default()), []),
        (Starting, Event::Resumed(lease)) => {
            to(Holding(Held::new(lease, Rows::Unchecked)), [Issue])
        }
        (Preparing(search), Event::Prepared) => to(Searching(search), []),
        (Preparing(search) | Searching(search), Event::RowsMissing) => to(Preparing(search), []),
        (Searching(_), Event::Leased(lease)) => to(Arriving { lease, before: None }, []),
        (Moving(before, _) | Refusing(before, _), Event::Leased(lease)) => {
            to(Arriving { lease, before: Some(before) }, [])
        }
        (Arriving { lease, before }, Event::Kept) => {
            let left = before.map(|before| Release(before.lease));
            to(Holding(Held::new(lease, rows)), [Issue].into_iter().chain(left))
        }
        (state @ Arriving { .. }, Event::NotKept) | (state, Event::Panicked) => {
            let (leases, _) = state.end();
            to(State::without_lease(rows, S::default()), leases.into_iter().map(UseUp))
        }
        // The file fails, whatever it keeps.
        (state @ (Preparing(_) | Searching(_)), Event::NotKept) => to(state, []),
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

/// The same for what happens to a lease that is held, whatever the clock does.
fn while_held<L, S: Default>(mut state: State<L, S>, event: Event<L>) -> Option<Transition<L, S>> {
    let held = state.held_mut()?;
    let left: fn(L) -> Effect<L, S> = match event {
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
        Event::NotKept => Effect::UseUp,
        _ => return None,
    };
    let (held, search) = match state {
        State::Held(held) => (held, S::default()),
        State::Moving(held, search) | State::Refusing(held, search) => (held, search),
        _ => return None,
    };
    to(State::without_lease(held.rows, search), [left(held.lease)])
}

/// An event that can happen leads to this.
fn to<L, S>(
    state: State<L, S>,
    effects: impl IntoIterator<Item = Effect<L, S>>,
) -> Option<Transition<L, S>> {
    Some(Transition { state, effects: effects.into_iter().collect() })
}

#[cfg(test)]
mod tests;
