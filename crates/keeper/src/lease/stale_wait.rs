//! Delays a lease while the store may be a restored one: a process without a recent write cannot
//! tell. All rows of the namespace count, including those that the process may not lease.
//!
//! A row that a crashed process left, and that no process leases, would make every start wait. So a
//! start that has waited releases such rows.
//!
//! It writes nothing during the wait. Otherwise other starts would see a fresh heartbeat in a
//! restored store, and conclude that it has living holders. The caller calls
//! [`StaleWait::wait_for_holders`] again before *each* write, surveys again after
//! [`StaleWait::release_rows`], and keeps the `StaleWait` until it has a lease. Embedded stores
//! never wait. Tests: `stale_stores.rs` in `src/tests`.

use std::time::Duration;

use raindrop_core::{
    instant::{format_unix_ms, millis},
    lease::{Row, RowExpiry, RowWrite},
};
use raindrop_store::{Scope, StoreError, UnreleasedRow, with_sources};

use super::context::{JudgedSurvey, LeaseContext};
use crate::{
    lease::settings::LeaseTimes,
    support::{observer::StoreOperation, random::LONGEST_PAUSE, status::UnavailableReason},
};

/// Number of rows that one start releases, so that many rows do not delay its own lease.
const RELEASED_AT_ONCE: usize = 64;

/// A store in which no holder has renewed for longer than a living one takes. If it is a restored
/// store, its holders have until `until` to write their rows.
#[derive(Clone)]
pub(crate) struct StaleStore {
    /// The last written of the rows that were not released.
    pub(crate) newest: UnreleasedRow,
    /// The end of the wait, by the steady clock.
    pub(crate) until: Duration,
    /// The end of the wait, in Unix ms.
    pub(crate) due_ms: i64,
}

impl StaleStore {
    /// Returns how much of the wait is left.
    pub(crate) const fn left(&self, steady: Duration) -> Duration {
        self.until.saturating_sub(steady)
    }

    pub(crate) fn reason(&self) -> UnavailableReason {
        let UnreleasedRow { reserved_key, worker, heartbeat_ms } = self.newest.clone();
        let (renewed_ms, due_ms) = (heartbeat_ms, self.due_ms);
        UnavailableReason::StaleStore { worker, reserved_key, renewed_ms, due_ms }
    }
}

/// The wait for the holders of a stale store.
#[derive(Clone, Default)]
pub(crate) struct StaleWait {
    /// The stale store that is waited for. It stays here after the wait, until a young heartbeat
    /// appears.
    found: Option<StaleStore>,
    releases: Releases,
}

/// Whether a process releases rows after the wait.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Releases {
    #[default]
    /// For a start: after its wait.
    Due,
    /// For a start that has released rows since this store was found stale.
    Done,
    /// For a holder, which waits to renew its own row.
    Never,
}

/// The bounds, by the store's clock, beyond which a heartbeat cannot be that of a living holder.
struct Ages {
    /// The store's clock, Unix ms.
    now_ms: i64,
    /// The largest age of a living holder's heartbeat, in ms.
    oldest_ms: i64,
    /// The allowed clock skew, in ms.
    skew_ms: i64,
}

impl Ages {
    const fn is_old(&self, heartbeat_ms: i64) -> bool {
        self.now_ms.saturating_sub(heartbeat_ms) > self.oldest_ms
    }

    /// Returns whether the heartbeat is ahead of the clock by more than the skew: the clock was set
    /// back since then.
    const fn is_future(&self, heartbeat_ms: i64) -> bool {
        heartbeat_ms > self.now_ms.saturating_add(self.skew_ms)
    }

    const fn is_stale(&self, heartbeat_ms: i64) -> bool {
        self.is_old(heartbeat_ms) || self.is_future(heartbeat_ms)
    }

    /// Returns whether a crashed process left the row and this process cannot lease it now. A row
    /// with a future heartbeat expires only a ttl after that instant, so this process cannot lease
    /// it either.
    fn is_left(&self, row: &UnreleasedRow, scope: &Scope) -> bool {
        let is_own_key = row.reserved_key == scope.reserved_key;
        let workers = scope.min_worker..=scope.max_worker;
        let is_own = is_own_key && row.worker.as_ref().is_ok_and(|id| workers.contains(id));
        self.is_future(row.heartbeat_ms) || self.is_old(row.heartbeat_ms) && !is_own
    }
}

impl StaleWait {
    /// Returns the wait of a process that holds a row.
    pub(crate) fn of_holder() -> Self {
        Self { releases: Releases::Never, ..Self::default() }
    }

    /// Returns whether the store was found stale. The wait may be over.
    pub(crate) const fn has_begun(&self) -> bool {
        self.found.is_some()
    }

    /// Returns the stale store to wait for; `None` if the store is not stale, or the wait is over.
    /// The rows of all holders in the namespace count, and the wait is long enough for the holder
    /// that renews most seldom.
    ///
    /// A start that will release rows waits longer by [`LONGEST_PAUSE`]: holders may wait, too, and
    /// their wait began only when they next reached the store.
    pub(crate) async fn wait_for_holders(
        &mut self,
        context: &LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<Option<StaleStore>, StoreError> {
        if !context.waits_if_stale() {
            return Ok(None);
        }
        let (ages, wait) = limits(context, judged);
        // While the store's clock is behind, a heartbeat that looks young may be old, so the store
        // counts as stale, and a wait continues whatever the heartbeats are.
        let is_behind = judged.is_store_behind();
        let newest = newest_row(context).await?;
        let newest = newest.filter(|row| is_behind || ages.is_stale(row.heartbeat_ms));
        let continues = is_behind || self.waits_because_of(newest.as_ref(), &ages);
        if !continues {
            self.end();
        }
        let Some(newest) = newest else { return Ok(None) };
        if self.found.is_none() {
            self.begin(context, newest, &ages, wait).await?;
        }
        let steady = context.shared.clock.steady();
        Ok(self.found.clone().filter(|stale| !stale.left(steady).is_zero()))
    }

    /// Returns whether this wait began because of a row with the heartbeat of `newest`. A clock
    /// that was ahead may have left several future heartbeats: one of them counts as any other.
    fn waits_because_of(&self, newest: Option<&UnreleasedRow>, ages: &Ages) -> bool {
        let (Some(found), Some(newest)) = (&self.found, newest) else { return false };
        let (began_ms, newest_ms) = (found.newest.heartbeat_ms, newest.heartbeat_ms);
        began_ms == newest_ms || ages.is_future(began_ms) && ages.is_future(newest_ms)
    }

    /// Begins a wait because of this row.
    async fn begin(
        &mut self,
        context: &LeaseContext,
        newest: UnreleasedRow,
        ages: &Ages,
        mut wait: Duration,
    ) -> Result<(), StoreError> {
        if self.releases == Releases::Due && will_release(context, ages, wait).await? {
            wait = wait.saturating_add(LONGEST_PAUSE);
        }
        let clock = &context.shared.clock;
        let until = clock.steady().saturating_add(wait);
        let due_ms = clock.now_ms().saturating_add(millis(wait));
        self.found = Some(StaleStore { newest, until, due_ms });
        Ok(())
    }

    fn end(&mut self) {
        self.found = None;
        if self.releases == Releases::Done {
            self.releases = Releases::Due;
        }
    }

    /// Returns whether rows must be released, now that the wait is over.
    pub(crate) fn is_release_due(&self, judged: &JudgedSurvey) -> bool {
        // While the store's clock is behind, the age of the rows is unknown.
        self.has_begun() && self.releases == Releases::Due && !judged.is_store_behind()
    }

    /// Releases the rows that made this start wait and that it cannot lease now, as
    /// `raindrop workers release` does. A row that has expired keeps its marks: another process may
    /// take it as it is. The caller must survey again.
    ///
    /// Later starts profit, not this one. So a failure to read or write such a row is logged, and
    /// does not keep this process from its lease.
    pub(crate) async fn release_rows(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<(), StoreError> {
        let (ages, _) = limits(context, judged);
        let mut rows = Vec::new();
        for left in left_rows(context, &ages).await? {
            if let Err(reason) = &left.worker {
                log_left(context, &left, reason);
                continue;
            }
            match read_left(context, &left).await {
                Ok(row) => rows.extend(row.filter(|left| left.is_releasable(&ages))),
                Err(error) => {
                    log_left(context, &left, &with_sources(&error));
                    if is_away(&error) {
                        break;
                    }
                }
            }
        }
        // The rows were read before this survey: if it finds the configured layout, their marks are
        // in that layout's units.
        let judged = context.survey(None).await?;
        if context.is_recorded(&judged) && !judged.is_store_behind() {
            for LeftRow { left, scope, row } in &rows {
                let released = release_row(context, scope, row, judged.survey.now_ms).await;
                if let Err(error) = released {
                    log_left(context, left, &with_sources(&error));
                    if is_away(&error) {
                        break;
                    }
                }
            }
        }
        self.releases = Releases::Done;
        // This start has waited for the remaining rows, too.
        if let (Some(found), Some(newest)) = (&mut self.found, newest_row(context).await?) {
            found.newest = newest;
        }
        Ok(())
    }
}

/// A row that a crashed process left.
struct LeftRow {
    left: UnreleasedRow,
    scope: Scope,
    row: Row,
}

impl LeftRow {
    /// Returns whether no process holds the row: it has expired, or its heartbeat is in the future.
    const fn is_releasable(&self, ages: &Ages) -> bool {
        self.row.free || ages.is_future(self.row.heartbeat_ms)
    }
}

/// Returns the rows that crashed processes left, the last written first; at most as many as one
/// start releases.
async fn left_rows(context: &LeaseContext, ages: &Ages) -> Result<Vec<UnreleasedRow>, StoreError> {
    let mut rows = unreleased_rows(context, u32::MAX).await?;
    rows.retain(|row| ages.is_left(row, &context.scope));
    rows.truncate(RELEASED_AT_ONCE);
    Ok(rows)
}

/// Returns whether this start will release a row after the wait: one with a future heartbeat, or
/// one that will have expired by then.
async fn will_release(
    context: &LeaseContext,
    ages: &Ages,
    wait: Duration,
) -> Result<bool, StoreError> {
    let latest_ms = ages.now_ms.saturating_add(millis(wait.saturating_add(LONGEST_PAUSE)));
    // Oldest first: the row that was written first expires first, unless the ttls differ.
    for left in left_rows(context, ages).await?.iter().rev() {
        let is_released = match read_left(context, left).await {
            Ok(Some(left)) => left.is_releasable(ages) || left.row.expires_ms <= latest_ms,
            Ok(None) => false,
            Err(error) if is_away(&error) => return Err(error),
            // `release_rows` logs it.
            Err(_) => false,
        };
        if is_released {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads a row that a crashed process left. Returns `None` if another process has written it since,
/// or if no process can lease it because its worker id cannot be read.
async fn read_left(
    context: &LeaseContext,
    left: &UnreleasedRow,
) -> Result<Option<LeftRow>, StoreError> {
    let Ok(worker) = left.worker else { return Ok(None) };
    let scope = Scope { reserved_key: left.reserved_key.clone(), ..context.scope.clone() };
    let row = context.store.read_row(&scope, worker);
    let row = context.call(StoreOperation::Read, row).await?;
    let row = row.filter(|row| row.heartbeat_ms == left.heartbeat_ms);
    Ok(row.map(|row| LeftRow { left: left.clone(), scope, row }))
}

/// Returns whether the store does not answer, so that calls for other rows would fail as well.
const fn is_away(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_) | StoreError::TimedOut { .. })
}

/// Logs that a row could not be released.
fn log_left(context: &LeaseContext, left: &UnreleasedRow, error: &str) {
    let UnreleasedRow { reserved_key, worker, .. } = left;
    tracing::warn!(
        namespace = context.scope.namespace,
        worker = worker.as_ref().ok(),
        reserved_key,
        error,
        "row not released: later starts wait for it as well"
    );
}

/// Returns the bounds of stale heartbeats, and how long to wait if the newest one is stale.
fn limits(context: &LeaseContext, judged: &JudgedSurvey) -> (Ages, Duration) {
    let LeaseTimes { stale_wait, max_clock_skew, .. } = context.settings.lease;
    let seldom_ms = context.history.present().map_or(0, |history| history.renew.ms);
    let wait_ms = millis(stale_wait).max(seldom_ms / 2 * 3);
    // The store's clock may have stepped by the skew, so heartbeats count as old that much sooner.
    // But never while a living holder may not have renewed yet: that takes the longest
    // `lease.renew` of all nodes, and an eighth more because no renewal is exactly on time.
    let skew_ms = millis(max_clock_skew);
    let oldest_ms = wait_ms.saturating_sub(skew_ms).max(seldom_ms / 8 * 9);
    let ages = Ages { now_ms: judged.survey.now_ms, oldest_ms, skew_ms };
    (ages, Duration::from_millis(wait_ms.unsigned_abs()))
}

/// Returns the row that was written last. An unreadable row counts only if the namespace has no
/// readable one: no process releases it, so its heartbeat would hide those of all holders.
async fn newest_row(context: &LeaseContext) -> Result<Option<UnreleasedRow>, StoreError> {
    let newest = unreleased_rows(context, 1).await?.pop();
    if newest.as_ref().is_none_or(|row| row.worker.is_ok()) {
        return Ok(newest);
    }
    let all = unreleased_rows(context, u32::MAX).await?;
    Ok(all.into_iter().find(|row| row.worker.is_ok()).or(newest))
}

/// Reads unreleased rows of the namespace, the last written first.
async fn unreleased_rows(
    context: &LeaseContext,
    limit: u32,
) -> Result<Vec<UnreleasedRow>, StoreError> {
    let rows = context.store.unreleased_rows(&context.scope.namespace, limit);
    context.call(StoreOperation::Read, rows).await
}

/// Releases a row as it was read, unless another process has written it since. The holder label
/// stays, so that a process which prefers its former row finds it. If the outcome is unknown, the
/// row may still be released.
async fn release_row(
    context: &mut LeaseContext,
    scope: &Scope,
    row: &Row,
    store_ms: i64,
) -> Result<(), StoreError> {
    let (layout, history) = (&context.settings.layout, &context.history);
    let is_of_layout = layout.reserved_keys().contains(&scope.reserved_key)
        && row.worker <= layout.largest_worker()
        && row.marks.lanes() == layout.lanes();
    let marks = match history.present() {
        Some(history) if is_of_layout => row.marks_when_released(layout, history, store_ms),
        // A row outside the layout is leased only after a move to a layout that has it, which
        // fences it.
        _ if row.free => row.marks.clone(),
        _ => return Ok(()),
    };
    let write = RowWrite {
        token: context.random.fresh_token(),
        epoch: context.history.epoch(),
        holder: row.holder.clone(),
        lane: row.lane,
        marks,
        expiry: RowExpiry::Released,
    };
    let swap = context.store.swap_row(scope, row.worker, row.token, &write);
    if context.call(StoreOperation::Swap, swap).await? {
        let (namespace, worker) = (&scope.namespace, row.worker);
        let (reserved_key, holder) = (&scope.reserved_key, &row.holder);
        tracing::warn!(
            namespace,
            worker,
            reserved_key,
            holder,
            "row released: no process renewed it since {}",
            format_unix_ms(row.heartbeat_ms)
        );
    }
    Ok(())
}
