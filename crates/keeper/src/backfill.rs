//! IDs for a past time, shared out among all nodes by the table of segments.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use raindrop_core::{
    code::is_valid_code,
    id::Id,
    instant::{format_unix_ms, format_unix_ms_short},
    issue::ClaimError,
    lease::{History, OwnWrite, Token},
};
use raindrop_store::{Reservation, Reserved, Scope, Store, StoreError};
use tokio::time::sleep;

use crate::{
    ground::{
        error::IssueError, observer::StoreOperation, random::fresh_token, store_call::store_call,
    },
    history::{
        follower::{Access, Follower},
        record::contended,
    },
    lease::{issuer::Issuer, settings::KeeperSettings},
};

/// How often a reservation is tried while the store names another epoch.
const TRIES: u32 = 8;
/// How often the own row is read until it shows the last write: the keeper may be writing it.
const LOOKS: u32 = 4;
/// Between these.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Issues IDs for a past time in one namespace.
///
/// Each tick has as many as the layout reserves ([`Layout::backfill_per_tick`]), in all nodes
/// together and forever: for all codes, or for each where codes share no cursor. Each tick that is
/// asked for becomes a row in the table of segments, which is never deleted.
///
/// The namespace's keeper must hold a lease: the row that it holds shows whether the store was put back
/// since, so that it would count from an older number. A process without a lease issues nothing for a
/// past time.
///
/// [`Layout::backfill_per_tick`]: raindrop_core::layout::Layout::backfill_per_tick
#[derive(Debug)]
pub struct Backfill {
    settings: KeeperSettings,
    store: Arc<dyn Store>,
    issuer: Issuer,
    prepared: AtomicBool,
    follower: Follower,
}

/// Why no IDs were issued for a past time.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The code or count is invalid.
    #[error(transparent)]
    Refused(ClaimError),
    /// The process holds no lease, by whose row it could see that the store was put back.
    #[error("IDs for a past time need a lease: {0}")]
    NoLease(IssueError),
    /// The last write of this process's row is too old to show later that the store was not put back.
    /// Nothing was reserved.
    #[error(
        "namespace {namespace}: this process last wrote the row of worker {worker} more than {longest:?} ago, so that row could not show whether the store was restored meanwhile: no ID was reserved, and the keeper renews its lease; try again"
    )]
    NotRenewed {
        /// The namespace.
        namespace: String,
        /// The worker id that is held.
        worker: u64,
        /// How old the last write may be.
        longest: Duration,
    },
    /// The store began a new epoch after the reservation. What was reserved is lost.
    #[error(
        "namespace {namespace}: the store began a new epoch meanwhile, in which the same IDs may be reserved again: none was issued; try again"
    )]
    EpochEnded {
        /// The namespace.
        namespace: String,
    },
    /// After the reservation the store did not show the last write of this process's row. What was
    /// reserved is lost.
    #[error(
        "namespace {namespace}: the row of worker {worker} does not show a write of this process of the last {longest:?}, so the store may have been restored, and may have reserved the same IDs before: none was issued, and the keeper looks at the store; try again"
    )]
    Unconfirmed {
        /// The namespace.
        namespace: String,
        /// The worker id that is held.
        worker: u64,
        /// How old the last write may be.
        longest: Duration,
    },
    /// The layout reserves no sequence numbers.
    #[error(
        "the layout of namespace {namespace} reserves no sequence numbers (layout.min_sequence is 0), so it has no IDs for a past time; layout.min_sequence is set before the namespace's first ID: a later move (`raindrop workers relayout`) opens only times after it"
    )]
    NotReserved {
        /// The namespace.
        namespace: String,
    },
    /// The instant is not past, or is before the first one that is open.
    #[error(
        "at {}: must be {} or later, and in a past tick (now is {}){}",
        format_unix_ms(*.at_ms),
        format_unix_ms_short(*.first_ms),
        format_unix_ms(*.now_ms),
        if *.can_be_opened { "; layout.backfill_from opens earlier ticks" } else { "" }
    )]
    OutOfRange {
        /// The instant, in Unix ms.
        at_ms: i64,
        /// The first possible instant: that of `layout.backfill_from`, else the first tick after
        /// the namespace's first start; not before its last move to another layout or restore.
        first_ms: i64,
        /// The store's clock.
        now_ms: i64,
        /// Whether `layout.backfill_from` can open the instant's tick.
        can_be_opened: bool,
    },
    /// The tick has fewer IDs left.
    #[error(
        "the tick of {} has {left} of {of} IDs left{}",
        format_unix_ms(*.at_ms),
        code.as_ref().map(|code| format!(" for code {code:?}")).unwrap_or_default()
    )]
    UsedUp {
        /// The code, unless all codes share these IDs.
        code: Option<String>,
        /// The instant, in Unix ms.
        at_ms: i64,
        /// How many are left.
        left: u64,
        /// How many there were.
        of: u64,
    },
    /// The namespace has no record, or that of another layout.
    #[error("the record of namespace {namespace} is gone or names another layout")]
    RecordChanged {
        /// The namespace.
        namespace: String,
    },
    /// IDs of past ticks were counted in another table or in another way: they would be issued
    /// again.
    #[error(
        "namespace {namespace}: IDs for a past time were issued with `{recorded}`, and this node has `{ours}`: it would issue them again; set what is recorded"
    )]
    CountedOtherwise {
        /// The namespace.
        namespace: String,
        /// What this node has.
        ours: String,
        /// What is recorded.
        recorded: String,
    },
    /// The store failed. What was reserved is lost.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The first tick that is open, the one before which `layout.backfill_from` opens none, and the epoch
/// of the record that says so.
#[derive(Clone, Copy)]
struct OpenTicks {
    first: u64,
    closed_before: u64,
    epoch: Token,
}

/// What was reserved of the numbers of a tick.
enum Numbers {
    /// As many as were asked for, from this one on, in this epoch.
    From(u64, Token),
    /// None: the next one is too near the end.
    TooFew { next: u64 },
}

impl Backfill {
    /// Issues IDs of the namespace and layout of these settings, with the clock and the observer of the
    /// issuer. Settings and store must be those that its keeper was started with; with others, the
    /// keeper's row is not found as it wrote it, and nothing is issued.
    pub fn new(settings: KeeperSettings, store: Arc<dyn Store>, issuer: &Issuer) -> Self {
        let KeeperSettings { namespace, layout, lease, .. } = &settings;
        let clock = Arc::clone(&issuer.state.clock);
        let follower = Follower::of_layout(namespace, layout, *lease, clock);
        let issuer = issuer.clone();
        Self { settings, store, issuer, prepared: AtomicBool::new(false), follower }
    }

    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        &self.settings.namespace
    }

    /// Issues `count` IDs of this code, ascending, in the tick of `at_ms` (Unix ms): all or none.
    ///
    /// # Errors
    ///
    /// See [`BackfillError`]. After an error of the store, and without a confirmation, some IDs of the
    /// tick may be lost.
    ///
    /// The order is the argument that no ID is issued twice, see `docs/safety.md`:
    ///
    /// 1. The tick is past by the store's clock, and open by the record.
    /// 2. The keeper's last write is noted: the store kept everything up to there.
    /// 3. The numbers are reserved, in a statement that names the epoch.
    /// 4. The keeper's row is read: it shows that the store was not put back since step 2.
    /// 5. The record is read: it has the epoch of step 3, and the tick is open.
    pub async fn ids(&self, code: &str, count: u32, at_ms: i64) -> Result<Vec<Id>, BackfillError> {
        let layout = &self.settings.layout;
        let (namespace, of) = (&self.settings.namespace, layout.backfill_per_tick());
        let key = self.check(code, count)?;
        if of == 0 {
            return Err(BackfillError::NotReserved { namespace: namespace.clone() });
        }
        // A move to another layout that begins after this read of the clock relies on every ID for
        // a past time being older than the move.
        let scope = Scope::new(namespace, layout, 0, layout.largest_worker());
        let now_ms = self.call(StoreOperation::Read, self.store.glance(&scope)).await?.now_ms;
        let open = self.open_ticks().await?;
        let tick = layout.tick_in_range(at_ms);
        let out_of_range = |open: OpenTicks| BackfillError::OutOfRange {
            at_ms,
            first_ms: layout.start_of_tick_ms(open.first),
            now_ms,
            can_be_opened: tick.is_some_and(|at| (open.closed_before..open.first).contains(&at)),
        };
        let is_past = layout.tick_at(at_ms) < layout.tick_at(now_ms);
        let tick = tick.filter(|tick| is_past && *tick >= open.first);
        let tick = tick.ok_or_else(|| out_of_range(open))?;
        let count = u64::from(count);
        self.prepare().await?;
        let before = self.own_write()?;
        let reserved = self.reserve(&format!("{key}@{tick}"), count).await?;
        if let Numbers::From(..) = reserved {
            self.confirm(&before).await?;
        }
        // A fail-over, a restore, or a move to another layout may have closed the tick since.
        let open = self.open_ticks().await?;
        if tick < open.first {
            return Err(out_of_range(open));
        }
        match reserved {
            Numbers::From(_, epoch) if epoch != open.epoch => {
                Err(BackfillError::EpochEnded { namespace: namespace.clone() })
            }
            Numbers::From(first, _) => {
                self.issuer.state.observer.ids_issued(count);
                let numbers = first..first + count;
                Ok(numbers.filter_map(|number| layout.backfilled(tick, number)).collect())
            }
            Numbers::TooFew { next } => {
                let left = of.saturating_sub(next);
                let code = (!self.settings.issue.codes_shared).then(|| code.to_owned());
                Err(BackfillError::UsedUp { code, at_ms, left, of })
            }
        }
    }

    /// Returns the keeper's last write, unless that is too old to confirm anything. Then the keeper says
    /// why it does not renew, or does so at once.
    fn own_write(&self) -> Result<OwnWrite, BackfillError> {
        let keeper = &self.issuer.state;
        let no_lease = || BackfillError::NoLease(self.issuer.no_lease());
        let (last, age) = keeper.own_write().ok_or_else(no_lease)?;
        let longest = self.settings.lease.longest_unwritten();
        if OwnWrite::is_recent(age, longest) {
            return Ok(last);
        }
        if self.issuer.status().reason.is_some() {
            return Err(no_lease());
        }
        keeper.doubt();
        let (namespace, worker) = (self.settings.namespace.clone(), last.worker);
        Err(BackfillError::NotRenewed { namespace, worker, longest })
    }

    /// Reads the row that the keeper holds until it shows that the store lost nothing since `before`, and
    /// lets the keeper look at once if it does not.
    async fn confirm(&self, before: &OwnWrite) -> Result<(), BackfillError> {
        let KeeperSettings { namespace, layout, lease, .. } = &self.settings;
        let (worker, keeper) = (before.worker, &self.issuer.state);
        let scope = Scope::new(namespace, layout, worker, worker);
        for _ in 0..LOOKS {
            let read = self.store.read_row(&scope, worker);
            let row = self.call(StoreOperation::Read, read).await?;
            // Only after the row, so that a write of the keeper in between shows as another token.
            let Some((last, age)) = keeper.own_write() else { break };
            if last.confirms(before, row.as_ref(), age, lease.longest_unwritten()) {
                return Ok(());
            }
            sleep(BETWEEN_LOOKS).await;
        }
        keeper.doubt();
        let (namespace, longest) = (namespace.clone(), lease.longest_unwritten());
        Err(BackfillError::Unconfirmed { namespace, worker, longest })
    }

    /// Checks code and count; returns the name under which the code's IDs are counted.
    fn check<'a>(&self, code: &'a str, count: u32) -> Result<&'a str, BackfillError> {
        let issue = &self.settings.issue;
        let refused = |error| Err(BackfillError::Refused(error));
        if !is_valid_code(code) {
            return refused(ClaimError::InvalidCode(code.to_owned()));
        }
        if issue.codes_allow.as_ref().is_some_and(|allowed| !allowed.contains(code)) {
            return refused(ClaimError::UnknownCode(code.to_owned()));
        }
        if count == 0 {
            return refused(ClaimError::InvalidCount { count, largest: u32::MAX });
        }
        Ok(if issue.codes_shared { "" } else { code })
    }

    /// Reads which ticks the namespace's record leaves open.
    async fn open_ticks(&self) -> Result<OpenTicks, BackfillError> {
        let KeeperSettings { namespace, layout, backfill_from_ms, .. } = &self.settings;
        let record = self.call(StoreOperation::Read, self.store.read_record(namespace)).await?;
        let record = record
            .filter(|record| record.canonical == layout.canonical())
            .ok_or_else(|| BackfillError::RecordChanged { namespace: namespace.clone() })?;
        if record.history.is_pending() {
            // Nor is it known which ticks were open.
            let reason = "it failed over, and the clocks differ too much to tell what it lost";
            return Err(StoreError::Unavailable(reason.into()).into());
        }
        let configured = backfill_from_ms.map(|from_ms| layout.tick_clamped(from_ms));
        let first = configured.unwrap_or(record.first_tick).max(record.since_tick);
        let (closed_before, epoch) = (record.since_tick, record.history.epoch());
        Ok(OpenTicks { first, closed_before, epoch })
    }

    /// Creates the table, once it is certain that IDs are counted as before: in the same table, and
    /// for each code or for all together. That is recorded beside the namespace's record, under a
    /// name that no namespace has.
    async fn prepare(&self) -> Result<(), BackfillError> {
        if self.prepared.load(Ordering::Acquire) {
            return Ok(());
        }
        let KeeperSettings { namespace, issue, .. } = &self.settings;
        let (shared, table) = (issue.codes_shared, self.store.segment_table());
        let ours = format!("codes.shared={shared} table={table}");
        let name = format!("{namespace}@past");
        let counted = Follower::of_numbers(&name, ours.clone());
        let recorded = counted.recorded(&self.access()).await?.canonical;
        if recorded != ours {
            let namespace = namespace.clone();
            return Err(BackfillError::CountedOtherwise { namespace, ours, recorded });
        }
        self.call(StoreOperation::Prepare, self.store.prepare_segments()).await?;
        self.prepared.store(true, Ordering::Release);
        Ok(())
    }

    async fn reserve(&self, key: &str, by: u64) -> Result<Numbers, BackfillError> {
        let KeeperSettings { namespace, layout, .. } = &self.settings;
        let end = layout.backfill_per_tick();
        // No row is created for more than there ever are.
        let or_begin_at = (by <= end).then_some(0);
        let mut history = self.follow(None).await?;
        let mut row_epoch = history.epoch();
        for _ in 0..TRIES {
            let (token, epoch) = (fresh_token(), history.epoch());
            let reservation =
                Reservation { by, step: by, end, token, or_begin_at, epoch, row_epoch };
            let reserved = self.store.reserve(namespace, key, &reservation);
            match self.call(StoreOperation::Reserve, reserved).await? {
                Reserved::From(first) => return Ok(Numbers::From(first, epoch)),
                Reserved::NoSuchCode => return Ok(Numbers::TooFew { next: 0 }),
                Reserved::OtherEpoch => {
                    history = self.follow(Some(epoch)).await?;
                    row_epoch = history.epoch();
                }
                Reserved::Refused(row) if row.epoch == row_epoch => {
                    return Ok(Numbers::TooFew { next: row.next });
                }
                // The tick is as old as the namespace, or closed.
                Reserved::Refused(row) if history.missed(row.epoch) == 0 => row_epoch = row.epoch,
                Reserved::Refused(_) => return Ok(Numbers::TooFew { next: end }),
            }
        }
        Err(contended().into())
    }

    async fn follow(&self, seen: Option<Token>) -> Result<History, StoreError> {
        self.follower.follow(&self.access(), seen).await
    }

    fn access(&self) -> Access<'_> {
        let observer = &*self.issuer.state.observer;
        Access { store: &*self.store, observer, fresh: &fresh_token }
    }

    async fn call<T>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        store_call(&*self.store, &*self.issuer.state.observer, operation, call).await
    }
}
