//! IDs for a past time, shared out among all nodes by the table of segments.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use rand::Rng;

use super::{
    KeeperSettings, Observer, StoreOperation, ask,
    random::{self, Random, fresh_token_of},
};
use crate::{
    core::{
        code::is_valid_code,
        id::Id,
        instant::{format_unix_ms, format_unix_ms_short},
        issue::ClaimError,
    },
    store::{LayoutRecord, Reservation, Reserved, Scope, Store, StoreError},
};

/// Hands out IDs for a past time in one namespace.
///
/// Each tick has as many as the layout reserves ([`Layout::backfill_per_tick`]) for each code, in
/// all nodes together and for ever. Each tick that is asked for is a row in the table of segments,
/// which is never deleted.
///
/// [`Layout::backfill_per_tick`]: crate::core::layout::Layout::backfill_per_tick
pub struct Backfill {
    settings: KeeperSettings,
    store: Arc<dyn Store>,
    observer: Arc<dyn Observer>,
    random: Mutex<Random>,
    prepared: AtomicBool,
}

/// Why there are no IDs for a past time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackfillError {
    /// The code or count cannot be used.
    #[error(transparent)]
    Refused(ClaimError),
    /// The layout reserves no sequence numbers.
    #[error(
        "the layout of namespace {namespace} reserves no sequence numbers (layout.min_sequence is 0), so it has no IDs for a past time"
    )]
    NotReserved {
        /// The namespace.
        namespace: String,
    },
    /// The instant is not a past one, or is before the namespace's.
    #[error(
        "at {}: must be {} or later, and in a past tick (now is {}); layout.backfill_from opens earlier ticks",
        format_unix_ms(*.at_ms), format_unix_ms_short(*.first_ms), format_unix_ms(*.now_ms)
    )]
    OutOfRange {
        /// The instant, in Unix ms.
        at_ms: i64,
        /// The first possible instant: that of `layout.backfill_from`, else the first tick after
        /// the namespace's first start; not before its last move to another layout or restore.
        first_ms: i64,
        /// The store's clock.
        now_ms: i64,
    },
    /// The tick has fewer IDs left.
    #[error("the tick of {} has {left} of {of} IDs left for code {code:?}", format_unix_ms(*.at_ms))]
    UsedUp {
        /// The code.
        code: String,
        /// The instant, in Unix ms.
        at_ms: i64,
        /// How many are left.
        left: u64,
        /// How many there were.
        of: u64,
    },
    /// The namespace has no record, or that of another layout.
    #[error("the record of namespace {namespace} is gone or says another layout")]
    RecordChanged {
        /// The namespace.
        namespace: String,
    },
    /// The shares of past ticks were counted in another table or in another way: they would be
    /// handed out again.
    #[error(
        "namespace {namespace}: IDs for a past time were handed out with `{recorded}`, and this node has `{ours}`: it would hand them out again"
    )]
    CountedOtherwise {
        /// The namespace.
        namespace: String,
        /// What this node has.
        ours: String,
        /// What is recorded.
        recorded: String,
    },
    /// The store fails. What was reserved is lost.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl fmt::Debug for Backfill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backfill").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Backfill {
    /// Hands out IDs of the namespace and layout of these settings.
    pub fn new(
        settings: KeeperSettings,
        store: Arc<dyn Store>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self::with_random(settings, store, observer, random::of_the_system())
    }

    /// Like [`Self::new`], with the source of tokens passed in: for tests.
    pub fn with_random(
        settings: KeeperSettings,
        store: Arc<dyn Store>,
        observer: Arc<dyn Observer>,
        random: Box<dyn Rng + Send + Sync>,
    ) -> Self {
        let (random, prepared) = (Mutex::new(random), AtomicBool::new(false));
        Self { settings, store, observer, random, prepared }
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.settings.namespace
    }

    /// `count` IDs of this code, ascending, of the tick of `at_ms` (Unix ms): all or none.
    ///
    /// # Errors
    ///
    /// See [`BackfillError`]. After an error of the store some IDs of the tick may be lost.
    pub async fn ids(&self, code: &str, count: u32, at_ms: i64) -> Result<Vec<Id>, BackfillError> {
        let layout = &self.settings.layout;
        let (namespace, of) = (&self.settings.namespace, layout.backfill_per_tick());
        let key = self.check(code, count)?;
        if of == 0 {
            return Err(BackfillError::NotReserved { namespace: namespace.clone() });
        }
        let (since_tick, now_ms) = self.look().await?;
        let out_of_range = || BackfillError::OutOfRange {
            at_ms,
            first_ms: layout.start_of_tick_ms(since_tick),
            now_ms,
        };
        let tick = layout.tick_in_range(at_ms).ok_or_else(out_of_range)?;
        if tick < since_tick || layout.tick_at(at_ms) >= layout.tick_at(now_ms) {
            return Err(out_of_range());
        }
        let count = u64::from(count);
        match self.reserve(&format!("{key}@{tick}"), count).await? {
            Ok(first) => {
                // A restored store, or a move to another layout, may have closed the tick since.
                if tick < self.first_tick(now_ms).await? {
                    return Err(out_of_range());
                }
                self.observer.ids_issued(count);
                let numbers = first..first + count;
                Ok(numbers.filter_map(|number| layout.backfilled(tick, number)).collect())
            }
            Err(next) => {
                let left = of.saturating_sub(next);
                Err(BackfillError::UsedUp { code: code.to_owned(), at_ms, left, of })
            }
        }
    }

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

    /// From which tick on there are IDs for a past time, and the store's clock.
    ///
    /// A move to another layout that begins after this look counts on what is handed out having
    /// been in the past by then.
    async fn look(&self) -> Result<(u64, i64), BackfillError> {
        let KeeperSettings { namespace, layout, .. } = &self.settings;
        if !self.prepared.load(Ordering::Acquire) {
            self.prepare().await?;
            self.prepared.store(true, Ordering::Release);
        }
        let scope = Scope::new(namespace, layout, 0, layout.largest_worker());
        let now_ms = self.ask(StoreOperation::Read, self.store.survey(&scope)).await?.now_ms;
        Ok((self.first_tick(now_ms).await?, now_ms))
    }

    /// The first tick that the namespace's record leaves open.
    async fn first_tick(&self, now_ms: i64) -> Result<u64, BackfillError> {
        let KeeperSettings { namespace, layout, backfill_from_ms, .. } = &self.settings;
        let record = self.ask(StoreOperation::Read, self.store.read_record(namespace)).await?;
        let record = record
            .filter(|record| record.words == layout.canonical())
            .ok_or_else(|| BackfillError::RecordChanged { namespace: namespace.clone() })?;
        let opened = backfill_from_ms.map(|from_ms| layout.tick_clamped(from_ms));
        // A record of an earlier version has no first tick until a node starts.
        let present = layout.tick_clamped(now_ms) + 1;
        let recorded = Some(record.first_tick).filter(|tick| *tick > 0);
        Ok(opened.or(recorded).unwrap_or(present).max(record.since_tick))
    }

    /// Makes the table, once it is certain that the shares of the ticks are counted as before: in
    /// the same table, and for each code or for all together. The record of that stands beside the
    /// namespace's, under a name that no namespace has.
    async fn prepare(&self) -> Result<(), BackfillError> {
        let KeeperSettings { namespace, issue, .. } = &self.settings;
        let (shared, table) = (issue.codes_shared, self.store.segment_table());
        let ours = format!("codes.shared={shared} table={table}");
        let name = format!("{namespace}@past");
        let record = LayoutRecord::new(&ours, fresh_token_of(&self.random), 0);
        let question = self.store.create_record(&name, &record);
        let recorded = self.ask(StoreOperation::Prepare, question).await?.words;
        if recorded != ours {
            let namespace = namespace.clone();
            return Err(BackfillError::CountedOtherwise { namespace, ours, recorded });
        }
        self.ask(StoreOperation::Prepare, self.store.prepare_segments()).await?;
        Ok(())
    }

    /// The first of the numbers that were reserved, or the next one where there are too few.
    async fn reserve(&self, key: &str, by: u64) -> Result<Result<u64, u64>, BackfillError> {
        let KeeperSettings { namespace, layout, .. } = &self.settings;
        let end = layout.backfill_per_tick();
        // More than there ever are: no row is made for that.
        let or_begin_at = (by <= end).then_some(0);
        let reservation = Reservation { by, end, token: fresh_token_of(&self.random), or_begin_at };
        let question = self.store.reserve(namespace, key, &reservation);
        Ok(match self.ask(StoreOperation::Reserve, question).await? {
            Reserved::From(first) => Ok(first),
            Reserved::Refused { next } => Err(next),
            Reserved::NoSuchCode => Err(0),
        })
    }

    async fn ask<T>(
        &self,
        operation: StoreOperation,
        question: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        ask(&*self.observer, operation, question).await
    }
}
