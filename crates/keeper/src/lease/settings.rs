//! Settings of a keeper, with the times of its lease.

use std::{fmt::Debug, time::Duration};

use raindrop_core::{
    instant::{format_unix_ms_or_year, format_unix_ms_short, millis},
    issue::IssueSettings,
    layout::Layout,
    lease::NodeTimes,
    namespace::DEFAULT_NAMESPACE,
    violation::{Violation, Violations},
};

use crate::state_file::{LONGEST_WRITE, StateFile};

/// The longest permitted value of a lease time.
const LONGEST: Duration = Duration::from_hours(24);

/// Which worker ids a keeper leases, and how its generator issues.
#[derive(Clone, Debug)]
pub struct KeeperSettings {
    /// The namespace; `default` unless there are several.
    pub namespace: String,
    /// The layout of the namespace's IDs.
    pub layout: Layout,
    /// The smallest worker id that this node may lease.
    pub min_worker: u64,
    /// The largest worker id that this node may lease.
    pub max_worker: u64,
    /// How many rows are created at a time. If the layout has more worker ids, further rows are
    /// created once no row is free. Each part is enlarged if there were more than 64 parts. A
    /// namespace keeps the size that its first node had.
    pub rows_at_once: u64,
    /// Whether this process prefers the row that its holder label had last, if that row is free.
    pub prefer_previous: bool,
    /// The label of this process in the store.
    pub holder: String,
    /// How IDs are issued.
    pub issue: IssueSettings,
    /// The times of the lease.
    pub lease: LeaseTimes,
    /// The instant, in Unix ms, from which IDs for a past time are issued, even if the namespace
    /// began later; `None` for the start of the namespace. IDs repeat if another system has used
    /// this layout's sequence numbers below `min_sequence` since then.
    pub backfill_from_ms: Option<i64>,
    /// The file that saves the lease for the next process, which can resume it while the store is
    /// away; `None` by default. One file serves every namespace of a process. With a file,
    /// `lease.renew` must be at least [`LeaseTimes::SHORTEST_RENEW_WITH_FILE`].
    pub state_file: Option<StateFile>,
}

impl KeeperSettings {
    /// Returns the defaults for a layout: namespace `default`, worker ids from 1 to the largest.
    pub fn new(layout: Layout, holder: impl Into<String>) -> Self {
        Self {
            namespace: DEFAULT_NAMESPACE.into(),
            min_worker: 1,
            max_worker: layout.largest_worker(),
            layout,
            rows_at_once: 1024,
            prefer_previous: false,
            holder: holder.into(),
            issue: IssueSettings::default(),
            lease: LeaseTimes::default(),
            backfill_from_ms: None,
            state_file: None,
        }
    }

    /// Checks that leases can be renewed in time and that worker ids fit the layout.
    ///
    /// # Errors
    ///
    /// Returns every violation, with its configuration key.
    pub fn check(&self) -> Result<(), Violations> {
        let mut found = Vec::new();
        let mut require = |holds: bool, key: &str, value: &dyn Debug, allowed: String| {
            if !holds {
                found.push(Violation::new(key, format!("{value:?}"), allowed));
            }
        };
        let LeaseTimes { window, ttl, renew, max_clock_skew, stale_wait } = self.lease;
        let issue = &self.issue;
        let (smallest, largest) = (self.layout.smallest_worker(), self.layout.largest_worker());
        let (min, max) = (self.min_worker, self.max_worker);
        require(max <= largest, "worker.max_id", &max, format!("0 to {largest}"));
        require(
            (smallest..=max).contains(&min),
            "worker.min_id",
            &min,
            format!("{smallest} to worker.max_id {max}"),
        );
        require(!renew.is_zero(), "lease.renew", &renew, "above 0".into());
        for (key, value) in [
            ("lease.window", window),
            ("lease.ttl", ttl),
            ("lease.renew", renew),
            ("lease.max_clock_skew", max_clock_skew),
            ("lease.stale_wait", stale_wait),
        ] {
            require(value <= LONGEST, key, &value, format!("at most {LONGEST:?}"));
        }
        let (shortest, is_off) = (renew.saturating_mul(3) / 2, stale_wait.is_zero());
        require(
            is_off || stale_wait >= shortest,
            "lease.stale_wait",
            &stale_wait,
            format!("at least one and a half times lease.renew ({shortest:?}), or 0"),
        );
        // One renewal may fail before the row expires or the range is used up.
        for (key, value) in [("lease.ttl", ttl), ("lease.window", window)] {
            let allowed = format!("more than twice lease.renew ({renew:?})");
            require(value > renew.saturating_mul(2), key, &value, allowed);
        }
        let half = format!("at most half of lease.window ({window:?})");
        for (key, value) in [
            ("issue.max_wait", issue.max_wait),
            ("issue.borrow_ahead", issue.borrow_ahead),
            ("rollback.hold", issue.hold),
        ] {
            require(value <= window / 2, key, &value, half.clone());
        }
        // A claim during a held rollback may be ahead of the clock by both.
        if issue.borrow_ahead <= window / 2 && issue.hold <= window / 2 {
            let ahead = issue.borrow_ahead.saturating_add(issue.hold);
            let allowed = format!("with issue.borrow_ahead {half}");
            require(ahead <= window / 2, "rollback.hold", &issue.hold, allowed);
        }
        // Every mark stays within a quarter of the wrap-around. So two equal IDs are at least three
        // quarters of it apart, even after a clock jumped ahead by a window.
        if let Some(wrap_ms) = self.layout.wrap_ms() {
            let quarter = Duration::from_millis(wrap_ms.unsigned_abs() / 4);
            let reach = [window, max_clock_skew, issue.borrow_ahead, issue.max_wait, issue.hold]
                .into_iter()
                .fold(Duration::ZERO, Duration::saturating_add);
            let allowed = format!(
                "so short that with lease.max_clock_skew, issue.borrow_ahead, issue.max_wait and \
                 rollback.hold it is at most {quarter:?}, a quarter of the time after which the \
                 timestamp wraps (now {reach:?})"
            );
            require(reach <= quarter, "lease.window", &window, allowed);
        }
        require(issue.codes_max > 0, "codes.max", &issue.codes_max, "above 0".into());
        if let Some(from_ms) = self.backfill_from_ms {
            found.extend(Self::check_backfill_from(&self.layout, from_ms));
        }
        if self.state_file.is_some() {
            found.extend(self.lease.check_with_state_file());
        }
        if found.is_empty() { Ok(()) } else { Err(Violations(found)) }
    }

    /// Returns why the ticks of this layout cannot be opened from `from_ms` (Unix ms) on; `None` if
    /// they can.
    pub(crate) fn check_backfill_from(layout: &Layout, from_ms: i64) -> Option<Violation> {
        let allowed = if layout.backfill_per_tick() == 0 {
            "left out where layout.min_sequence is 0: no IDs are reserved for a past time"
                .to_owned()
        } else if layout.tick_in_range(from_ms).is_none() {
            let (first, end) = (layout.epoch_ms(), layout.valid_until_ms());
            let [first, end] = [first, end].map(format_unix_ms_or_year);
            format!("from {first}, where the layout begins, to before {end}, where it ends")
        } else {
            return None;
        };
        Some(Violation::new("layout.backfill_from", format_unix_ms_short(from_ms), allowed))
    }
}

/// The times of a lease. The defaults are those of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How far ahead a renewed lease reaches. IDs are issued for as long without the store; 5 min.
    pub window: Duration,
    /// After this time by the store's clock the row of a crashed node expires; 90 s.
    pub ttl: Duration,
    /// The time from the beginning of a renewal to that of the next one; 30 s. With a state file at
    /// least [`Self::SHORTEST_RENEW_WITH_FILE`].
    pub renew: Duration,
    /// By how much the node's clock may be ahead of the store's; 10 s.
    pub max_clock_skew: Duration,
    /// If no holder has renewed for this long, the store may be a restored backup. Then a new
    /// lease, or one whose row another process may have taken, waits for this long before it
    /// begins. At least one and a half times `renew`; 0 disables the wait, and embedded stores
    /// never wait; 45 s.
    pub stale_wait: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self {
            window: Duration::from_mins(5),
            ttl: Duration::from_secs(90),
            renew: Duration::from_secs(30),
            max_clock_skew: Duration::from_secs(10),
            stale_wait: Duration::from_secs(45),
        }
    }
}

impl LeaseTimes {
    /// The shortest permitted [`renew`](Self::renew) with a state file: a renewal may wait for two
    /// writes of the file, the one under way and its own, and may not delay the next renewal.
    pub const SHORTEST_RENEW_WITH_FILE: Duration = LONGEST_WRITE.saturating_mul(2);

    /// Returns why these times cannot be used with a state file; `None` if they can.
    pub fn check_with_state_file(&self) -> Option<Violation> {
        let shortest = Self::SHORTEST_RENEW_WITH_FILE;
        (self.renew < shortest).then(|| {
            let allowed = format!("at least {shortest:?} with store.state_file");
            Violation::new("lease.renew", format!("{:?}", self.renew), allowed)
        })
    }

    /// Returns how old a holder's last write may be to confirm that the store has lost nothing
    /// since. A backup that is restored in place must be older.
    pub(crate) fn longest_unwritten(&self) -> Duration {
        self.renew.saturating_mul(3) / 2
    }

    /// Returns these times as the record has them. A lease reaches beyond the store's clock by the
    /// window, plus the skew by which the node's clock may be ahead, plus the same skew for the
    /// clock of a server that takes over.
    pub(crate) fn of_node(&self) -> NodeTimes {
        let reach = self.window.saturating_add(self.max_clock_skew.saturating_mul(2));
        NodeTimes { reach_ms: millis(reach), renew_ms: millis(self.renew) }
    }
}

#[cfg(test)]
mod tests {
    use raindrop_core::preset::Preset;

    use super::*;

    #[test]
    fn wrapping_timestamp_bounds_the_window_and_forbids_worker_0() {
        let layout = Preset::WestidQr.spec().build().expect("valid");
        let mut settings = KeeperSettings::new(layout, "test");
        assert_eq!(settings.check(), Ok(()), "the defaults fit");
        // 2^21 ms / 4 = 524.288 s, of which the other defaults take 12 s.
        settings.lease.window = Duration::from_millis(512_288);
        assert_eq!(settings.check(), Ok(()));
        settings.lease.window = Duration::from_millis(512_289);
        settings.min_worker = 0;
        // A time that wraps has no past.
        settings.backfill_from_ms = Some(settings.layout.epoch_ms());
        assert_eq!(
            settings.check().expect_err("three violations").to_string(),
            "worker.min_id = 0: must be 1 to worker.max_id 31; lease.window = 512.289s: must be \
             so short that with lease.max_clock_skew, issue.borrow_ahead, issue.max_wait and \
             rollback.hold it is at most 524.288s, a quarter of the time after which the \
             timestamp wraps (now 524.289s); layout.backfill_from = 2017-03-24T09:04:43.706Z: must \
             be left out where layout.min_sequence is 0: no IDs are reserved for a past time"
        );
    }

    #[test]
    fn backfill_from_must_be_inside_the_layout() {
        let layout = Preset::Yitter.layout();
        let mut settings = KeeperSettings::new(layout.clone(), "test");
        let (first_ms, end_ms) = (layout.epoch_ms(), layout.valid_until_ms());
        for from_ms in [first_ms, end_ms - 1] {
            settings.backfill_from_ms = Some(from_ms);
            assert_eq!(settings.check(), Ok(()));
        }
        for from_ms in [first_ms - 1, end_ms] {
            settings.backfill_from_ms = Some(from_ms);
            let error = settings.check().expect_err("outside").to_string();
            assert!(
                error.starts_with("layout.backfill_from = ")
                    && error.contains(": must be from 2020-02-19T18:20:02Z, where"),
                "{error}"
            );
        }
    }
}
