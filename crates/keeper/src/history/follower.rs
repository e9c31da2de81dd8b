//! Follows the history of a store for reservations: of segments, and of IDs for a past time.
//!
//! A reservation names an epoch, and the store refuses it in any other. [`Follower::follow`]
//! returns the present history; if the store failed over, it first begins a new epoch in the
//! record. [`Follower::begin_epoch_after_loss`] begins one because a reservation was lost.
//! [`Follower::rows`] reads the rows of codes together with the history in which they were read.
//!
//! It reserves nothing. A caller that gets another epoch must give up its numbers of the earlier
//! one, and name the new one from then on. One lock serializes calls, so that a process begins no
//! two epochs for one loss. Leases follow the history in `lease/context.rs` instead. Tests:
//! `segment_failovers.rs` and `backfill.rs` in `src/tests`.

use std::sync::Arc;

use raindrop_core::{
    clock::Clock,
    layout::Layout,
    lease::{EpochClocks, History, NodeTimes, Token},
    segment::CodeRow,
};
use raindrop_store::{CodeState, LayoutRecord, Scope, Store, StoreError, Survey};
use tokio::{sync::Mutex, time::Instant};

use super::{Followed, HistoryContext, KnownHistory, contended, create_record};
use crate::{
    lease::settings::LeaseTimes,
    support::{
        observer::{Observer, StoreOperation},
        store_call::{store_call, timed},
    },
};

/// How many times the record is read again because other nodes changed it.
const RECORD_TRIES: u32 = 100;
/// How many times rows are read again because the store names another epoch.
const ROW_TRIES: u32 = 8;

/// Follows the history that the record of one namespace has.
#[derive(Debug)]
pub(crate) struct Follower {
    scope: Scope,
    canonical: String,
    /// `None` if IDs are plain numbers.
    timed: Option<Timed>,
    began: Instant,
    known: Mutex<KnownHistory>,
}

/// The facts that decide how far the leases of a namespace reach.
#[derive(Debug)]
struct Timed {
    layout: Layout,
    lease: LeaseTimes,
    clock: Arc<dyn Clock>,
}

/// The store, and the parts that calls of it and writes of the record need.
pub(crate) struct Access<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) observer: &'a dyn Observer,
    /// Draws a fresh token.
    pub(crate) fresh: &'a (dyn Fn() -> Token + Sync),
}

impl Follower {
    /// Follows the record, with the text `canonical`, of a namespace that counts. Its reservations
    /// have no time, so nothing is reserved beyond the store's clock.
    pub(crate) fn of_numbers(namespace: &str, canonical: String) -> Self {
        Self::new(namespace, canonical, None)
    }

    /// Follows the record of a namespace that has a layout and leases with these times.
    pub(crate) fn of_layout(
        namespace: &str,
        layout: &Layout,
        lease: LeaseTimes,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let timed = Timed { layout: layout.clone(), lease, clock };
        Self::new(namespace, layout.canonical(), Some(timed))
    }

    fn new(namespace: &str, canonical: String, timed: Option<Timed>) -> Self {
        // Any scope: only the record, the identity and the clock of a survey are used.
        let (namespace, reserved_key) = (namespace.to_owned(), "0/0".to_owned());
        let scope = Scope { namespace, reserved_key, min_worker: 0, max_worker: 0 };
        let (began, known) = (Instant::now(), Mutex::default());
        Self { scope, canonical, timed, began, known }
    }

    /// Returns the namespace's record. Creates the record if there is none; only for a namespace
    /// that counts.
    pub(crate) async fn recorded(&self, access: &Access<'_>) -> Result<LayoutRecord, StoreError> {
        let (survey, clocks) = self.survey(access).await?;
        if let Some(record) = survey.record {
            return Ok(record);
        }
        self.create_record(access, &survey, clocks, &*self.known.lock().await).await
    }

    /// Creates the record. If a process knew an earlier one, the new record begins a new epoch,
    /// after which the numbers that the store lost are skipped.
    async fn create_record(
        &self,
        access: &Access<'_>,
        survey: &Survey,
        clocks: EpochClocks,
        known: &KnownHistory,
    ) -> Result<LayoutRecord, StoreError> {
        let history = known.created(survey, clocks, (access.fresh)(), self.times());
        let record = LayoutRecord::new(&self.canonical, (access.fresh)(), 0, history);
        create_record(access.store, access.observer, &self.scope.namespace, &record).await
    }

    /// Reads the record, the server's identity and the clocks.
    async fn survey(&self, access: &Access<'_>) -> Result<(Survey, EpochClocks), StoreError> {
        let summary = access.store.summary(&self.scope);
        let call = store_call(access.store, access.observer, StoreOperation::Read, summary);
        let Some(Timed { lease, clock, .. }) = &self.timed else {
            let survey = call.await?;
            let clocks = EpochClocks::of_store(survey.now_ms);
            return Ok((survey, clocks));
        };
        let (survey, _, reading) = timed(&**clock, call).await?;
        Ok((survey, reading.epoch_clocks(lease.window)))
    }

    /// Returns this process's lease times; zero for a namespace that counts.
    fn times(&self) -> NodeTimes {
        self.timed.as_ref().map_or_else(NodeTimes::default, |timed| timed.lease.of_node())
    }

    /// Returns the epoch that was followed last; `None` before the first time.
    pub(crate) async fn epoch(&self) -> Option<Token> {
        self.known.lock().await.present().map(History::epoch)
    }

    /// Returns the present history. Asks the store only if the history was not followed since a
    /// caller knew `seen` as the present epoch; with `None`, if it never was. The record of another
    /// layout is only read.
    pub(crate) async fn follow(
        &self,
        access: &Access<'_>,
        seen: Option<Token>,
    ) -> Result<History, StoreError> {
        let mut known = self.known.lock().await;
        let present = known.present().filter(|present| Some(present.epoch()) != seen);
        if let Some(present) = present.filter(|_| !known.epoch_must_end) {
            return Ok(present.clone());
        }
        for _ in 0..RECORD_TRIES {
            let (survey, clocks) = self.survey(access).await?;
            let Some(record) = &survey.record else {
                if self.timed.is_some() {
                    // A keeper writes the record again.
                    return Err(StoreError::Vanished("the layout record is gone".to_owned()));
                }
                self.create_record(access, &survey, clocks, &known).await?;
                continue;
            };
            if record.canonical != self.canonical {
                return Ok(known.read(record).clone());
            }
            let context = HistoryContext {
                store: access.store,
                steady: self.began.elapsed(),
                observer: access.observer,
                namespace: &self.scope.namespace,
                layout: self.timed.as_ref().map(|timed| &timed.layout),
                clocks,
                own: self.times(),
                leases: false,
                until_ms: None,
            };
            let followed = known.follow(&context, &survey, record, access.fresh).await?;
            if followed == Followed::Current {
                return Ok(record.history.clone());
            }
        }
        Err(contended())
    }

    /// Begins a new epoch, unless another call did, because the store lost a reservation that it
    /// had acknowledged in the epoch `seen`. Returns the present history.
    pub(crate) async fn begin_epoch_after_loss(
        &self,
        access: &Access<'_>,
        seen: Token,
    ) -> Result<History, StoreError> {
        let mut known = self.known.lock().await;
        known.epoch_must_end |= known.epoch() == seen;
        drop(known);
        self.follow(access, Some(seen)).await
    }

    /// Reads the row of a segment code, and the history in which it was read. Reserves nothing.
    pub(crate) async fn row(
        &self,
        access: &Access<'_>,
        code: &str,
    ) -> Result<(Option<CodeRow>, History), StoreError> {
        let (rows, history) = self.rows(access, &[code]).await?;
        Ok((rows.into_iter().next().expect("one row for each code")?, history))
    }

    /// Reads the rows of these codes, in their order, like [`Self::row`]. The store limits how many
    /// codes one call may name.
    pub(crate) async fn rows(
        &self,
        access: &Access<'_>,
        codes: &[&str],
    ) -> Result<(Vec<Result<Option<CodeRow>, StoreError>>, History), StoreError> {
        let mut history = self.follow(access, None).await?;
        for _ in 0..ROW_TRIES {
            let states = access.store.read_segments(&self.scope.namespace, codes, history.epoch());
            let states =
                store_call(access.store, access.observer, StoreOperation::Read, states).await?;
            if states.iter().any(|state| matches!(state, Ok(CodeState::OtherEpoch))) {
                history = self.follow(access, Some(history.epoch())).await?;
                continue;
            }
            let rows = states.into_iter().map(|state| Ok(state?.row()));
            return Ok((rows.collect(), history));
        }
        Err(contended())
    }
}
