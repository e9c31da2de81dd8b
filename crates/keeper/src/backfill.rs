//! Issues IDs for a past time, which all nodes share out by the store's table of segments.
//!
//! No lease covers a past tick, so each ID is one number that the store reserves. The danger is a
//! store that was restored: it would count from an older number. So [`Backfill::ids`] checks, in an
//! order that its doc comment gives, that the store still shows the last write of this process's
//! lease. Numbers that are not confirmed are dropped.
//!
//! It renews no lease and changes no marks. The caller needs a running [`Keeper`](crate::Keeper)
//! that holds a lease of the same namespace. `docs/safety/backfill.md` has the argument and its
//! premises. Tests: `src/tests/backfill.rs`.

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
    history::{
        contended,
        follower::{Access, Follower},
    },
    lease::{issuer::Issuer, settings::KeeperSettings},
    support::{
        error::IssueError, observer::StoreOperation, random::fresh_token, store_call::store_call,
    },
};

/// How many times a reservation is tried while the store names another epoch.
const EPOCH_TRIES: u32 = 8;
/// How many times the process's own row is read until it shows the last write, since the keeper may
/// be writing it.
const READS: u32 = 4;
/// The pause between these reads.
const BETWEEN_READS: Duration = Duration::from_millis(50);

/// Issues IDs for a past time in one namespace.
///
/// A tick has as many IDs as the layout reserves ([`Layout::backfill_per_tick`]), in all nodes
/// together and forever: for all codes together, or for each code if codes share no cursor. Each
/// tick that a client asks for becomes a row in the table of segments, which is never deleted.
///
/// The namespace's keeper must hold a lease. The row of that lease shows whether the store was
/// restored meanwhile, so that it would count from an older number. A process without a lease
/// issues no IDs for a past time.
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
    /// The process holds no lease, so it has no row that would show a restore of the store.
    #[error("IDs for a past time need a lease: {0}")]
    NoLease(IssueError),
    /// The last write of this process's row is too old to show later that the store was not
    /// restored. Nothing was reserved.
    #[error(
        "namespace {namespace}: this process last wrote the row of worker {worker} more than \
         {longest:?} ago, so that row could not show whether the store was restored meanwhile: no \
         ID was reserved, and the keeper renews its lease; try again"
    )]
    NotRenewed {
        /// The namespace.
        namespace: String,
        /// The worker id of the lease.
        worker: u64,
        /// The last write must be younger than this.
        longest: Duration,
    },
    /// The store began a new epoch after the reservation. The reserved numbers are lost.
    #[error(
        "namespace {namespace}: the store began a new epoch meanwhile, in which the same IDs may \
         be reserved again: none was issued; try again"
    )]
    EpochEnded {
        /// The namespace.
        namespace: String,
    },
    /// After the reservation, the store did not show the last write of this process's row. The
    /// reserved numbers are lost.
    #[error(
        "namespace {namespace}: the row of worker {worker} does not show a write of this process \
         of the last {longest:?}, so the store may have been restored, and may have reserved the \
         same IDs before: none was issued, and the keeper looks at the store; try again"
    )]
    Unconfirmed {
        /// The namespace.
        namespace: String,
        /// The worker id of the lease.
        worker: u64,
        /// The last write must be younger than this.
        longest: Duration,
    },
    /// The layout reserves no sequence numbers.
    #[error(
        "the layout of namespace {namespace} reserves no sequence numbers (layout.min_sequence is \
         0), so it has no IDs for a past time; layout.min_sequence is set before the namespace's \
         first ID: a later move (`raindrop workers relayout`) opens only times after it"
    )]
    NotReserved {
        /// The namespace.
        namespace: String,
    },
    /// The instant is not past, or is before the first open one.
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
        /// The store's clock, in Unix ms.
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
    /// The namespace has no record, or its record names another layout.
    #[error("the record of namespace {namespace} is gone or names another layout")]
    RecordChanged {
        /// The namespace.
        namespace: String,
    },
    /// IDs of past ticks were counted in another table or in another way: this node would issue
    /// them again.
    #[error(
        "namespace {namespace}: IDs for a past time were issued with `{recorded}`, and this node \
         has `{ours}`: it would issue them again; set what is recorded"
    )]
    CountedOtherwise {
        /// The namespace.
        namespace: String,
        /// How this node counts.
        ours: String,
        /// How the record says that IDs were counted.
        recorded: String,
    },
    /// The store failed. Reserved numbers are lost.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The ticks that are open, as the record of one epoch says: the first open one, and the one before
/// which `layout.backfill_from` opens none.
#[derive(Clone, Copy)]
struct OpenTicks {
    first: u64,
    closed_before: u64,
    epoch: Token,
}

/// The result of a reservation of numbers of a tick.
enum Numbers {
    /// The first of the reserved numbers, and the epoch of the reservation.
    From(u64, Token),
    /// None: fewer are left. `next` is the next number.
    TooFew { next: u64 },
}

impl Backfill {
    /// Issues IDs of the namespace and layout of these settings, with the clock and the observer of
    /// `issuer`. Settings and store must be those with which its keeper was started. With others,
    /// the keeper's row shows another write, and nothing is issued.
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
    /// See [`BackfillError`]. After an error of the store, or without a confirmation, some IDs of
    /// the tick may be lost.
    ///
    /// So that no ID is issued twice, the steps have this order (see `docs/safety/backfill.md`):
    ///
    /// 1. By the store's clock the tick is past, and by the record it is open.
    /// 2. This function notes the keeper's last write: the store has everything up to it.
    /// 3. The store reserves the numbers, in a statement that names the epoch.
    /// 4. A read of the keeper's row shows that the store was not restored since step 2.
    /// 5. A read of the record shows the epoch of step 3, and that the tick is still open.
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
        let now_ms = self.call(StoreOperation::Read, self.store.summary(&scope)).await?.now_ms;
        let open_before = self.open_ticks().await?;
        let asked = layout.tick_in_range(at_ms);
        let out_of_range = |open: OpenTicks| BackfillError::OutOfRange {
            at_ms,
            first_ms: layout.start_of_tick_ms(open.first),
            now_ms,
            can_be_opened: asked.is_some_and(|at| (open.closed_before..open.first).contains(&at)),
        };
        let is_past = layout.tick_at(at_ms) < layout.tick_at(now_ms);
        let Some(tick) = asked.filter(|tick| is_past && *tick >= open_before.first) else {
            return Err(out_of_range(open_before));
        };
        let count = u64::from(count);
        self.prepare().await?;
        let before = self.own_write()?;
        let reserved = self.reserve(&format!("{key}@{tick}"), count).await?;
        if let Numbers::From(..) = reserved {
            self.confirm(&before).await?;
        }
        // A fail-over, a restore, or a move to another layout may have closed the tick since.
        let open_now = self.open_ticks().await?;
        if tick < open_now.first {
            return Err(out_of_range(open_now));
        }
        match reserved {
            Numbers::From(_, epoch) if epoch != open_now.epoch => {
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

    /// Returns the keeper's last write. If that is too old to confirm anything, fails with the
    /// keeper's reason for not renewing, or wakes the keeper to renew at once.
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

    /// Reads the keeper's row until it shows that the store has lost nothing since `before`. If it
    /// never does, makes the keeper read its row at once, and fails.
    async fn confirm(&self, before: &OwnWrite) -> Result<(), BackfillError> {
        let KeeperSettings { namespace, layout, lease, .. } = &self.settings;
        let (worker, keeper) = (before.worker, &self.issuer.state);
        let scope = Scope::new(namespace, layout, worker, worker);
        for _ in 0..READS {
            let read = self.store.read_row(&scope, worker);
            let row = self.call(StoreOperation::Read, read).await?;
            // After the row, so that a write of the keeper in between shows as another token.
            let Some((last, age)) = keeper.own_write() else { break };
            if last.confirms(before, row.as_ref(), age, lease.longest_unwritten()) {
                return Ok(());
            }
            sleep(BETWEEN_READS).await;
        }
        keeper.doubt();
        let (namespace, longest) = (namespace.clone(), lease.longest_unwritten());
        Err(BackfillError::Unconfirmed { namespace, worker, longest })
    }

    /// Checks code and count. Returns the name under which the code's IDs are counted.
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

    /// Reads from the namespace's record which ticks are open.
    async fn open_ticks(&self) -> Result<OpenTicks, BackfillError> {
        let KeeperSettings { namespace, layout, backfill_from_ms, .. } = &self.settings;
        let record = self.call(StoreOperation::Read, self.store.read_record(namespace)).await?;
        let record = record
            .filter(|record| record.canonical == layout.canonical())
            .ok_or_else(|| BackfillError::RecordChanged { namespace: namespace.clone() })?;
        if record.history.lacks_barrier() {
            // Which ticks were open is unknown, too.
            let reason = "it failed over, and the clocks differ too much to tell what it lost";
            return Err(StoreError::Unavailable(reason.into()).into());
        }
        let configured = backfill_from_ms.map(|from_ms| layout.tick_clamped(from_ms));
        let first = configured.unwrap_or(record.first_tick).max(record.since_tick);
        let (closed_before, epoch) = (record.since_tick, record.history.epoch());
        Ok(OpenTicks { first, closed_before, epoch })
    }

    /// Checks that IDs are counted as before, in the same table and for each code or for all
    /// together, and creates the table. A separate record stores both, under a name that no
    /// namespace can have.
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
        // A reservation of more numbers than a tick has must not create a row.
        let or_begin_at = (by <= end).then_some(0);
        let mut history = self.follow(None).await?;
        let mut row_epoch = history.epoch();
        for _ in 0..EPOCH_TRIES {
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
                // The tick's row is as old as the namespace, or the tick is closed.
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
