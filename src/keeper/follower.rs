//! Follows the history of the store on behalf of those who reserve segments.

use std::time::Duration;

use tokio::{sync::Mutex, time::Instant};

use super::{
    Observer, StoreOperation,
    history::{HistoryContext, KnownHistory},
    store_call::store_call,
};
use crate::{
    core::{
        clock::{Clock, SystemClock},
        layout::Layout,
        lease::{History, Token},
    },
    store::{Counts, Scope, Store, StoreError},
};

/// How often the record is read again because other nodes changed it.
const TRIES: u32 = 100;

/// Follows the history that the record of one namespace tells.
#[derive(Debug)]
pub(super) struct Follower {
    scope: Scope,
    canonical: String,
    layout: Option<Layout>,
    reach_ms: i64,
    clock: RuntimeClock,
    known: Mutex<KnownHistory>,
}

/// Whom a follower asks.
pub(super) struct Access<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) observer: &'a dyn Observer,
    /// Draws a fresh token.
    pub(super) fresh: &'a (dyn Fn() -> Token + Sync),
}

impl Follower {
    /// Follows the record of a namespace that counts, whose text is `canonical`. Reservations have no
    /// time, so they do not reach beyond the store's clock.
    pub(super) fn of_numbers(namespace: &str, canonical: String) -> Self {
        Self::new(namespace, canonical, None, 0)
    }

    /// Follows the record of a namespace that has a layout. Its leases reach so many ms beyond the
    /// store's clock.
    pub(super) fn of_layout(namespace: &str, layout: &Layout, reach_ms: i64) -> Self {
        Self::new(namespace, layout.canonical(), Some(layout.clone()), reach_ms)
    }

    fn new(namespace: &str, canonical: String, layout: Option<Layout>, reach_ms: i64) -> Self {
        // Of the survey only record, identity and clock are of interest.
        let (namespace, reserved_key) = (namespace.to_owned(), "0/0".to_owned());
        let scope = Scope { namespace, reserved_key, min_worker: 0, max_worker: 0 };
        let clock = RuntimeClock(Instant::now());
        Self { scope, canonical, layout, reach_ms, clock, known: Mutex::default() }
    }

    /// Returns the history as it was followed last.
    pub(super) async fn present(&self) -> History {
        self.known.lock().await.present.clone()
    }

    /// Follows the history, unless that was done since somebody knew the epoch `seen` for the present
    /// one. Returns the history. The record of another layout is only read.
    pub(super) async fn follow(
        &self,
        access: &Access<'_>,
        seen: Token,
    ) -> Result<History, StoreError> {
        let mut known = self.known.lock().await;
        if known.present.epoch() != seen {
            return Ok(known.present.clone());
        }
        let context = HistoryContext {
            store: access.store,
            clock: &self.clock,
            observer: access.observer,
            namespace: &self.scope.namespace,
            layout: self.layout.as_ref(),
            reach_ms: self.reach_ms,
        };
        for _ in 0..TRIES {
            let survey = access.store.survey(&self.scope, Counts::Recent);
            let survey = store_call(access.observer, StoreOperation::Read, survey).await?;
            let Some(record) = &survey.record else {
                return Err(StoreError::Vanished("the layout record is gone".to_owned()));
            };
            if record.canonical != self.canonical {
                known.present = record.history.clone();
                return Ok(known.present.clone());
            }
            if known.follow(&context, &survey, record, access.fresh).await? {
                return Ok(known.present.clone());
            }
        }
        Err(contended())
    }
}

/// The error after many attempts to write in the present epoch.
pub(super) fn contended() -> StoreError {
    StoreError::Refused("other nodes keep changing the layout record".into())
}

/// The clocks of a task that has none passed in.
#[derive(Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms()
    }

    fn steady(&self) -> Duration {
        self.0.elapsed()
    }
}
