//! What a person does to rows and records: releasing a row, raising every mark, moving a
//! namespace to another layout.
//!
//! An operator is bound by the same rules as a node: each write of a row is one compare-and-swap
//! with a fresh random token, and no mark is lowered. So a lease that is under way when a row is
//! written ends at its limit, and the next one begins above it.

mod error;
mod raise;
mod relayout;
mod release;

use std::{sync::Arc, time::Duration};

use rand::Rng;
use tokio::time::sleep;

pub use self::{
    error::OperatorError,
    raise::Raised,
    relayout::{Moved, Relaid},
    release::Freed,
};
use super::{
    KeeperSettings,
    context::millis,
    prepare::{DECIDED_FOR, tokens_of_birth},
    random::{self, Random},
};
use crate::{
    core::{
        clock::Clock,
        layout::Layout,
        lease::{
            HighWaterMarks, Relayout, Resolution, Row, RowExpiry, RowWrite, StoreReading, Tenure,
            Token,
        },
        planted::{Bug, planted},
    },
    store::{LayoutRecord, ListedRow, NewRows, Scope, Store, StoreError},
};

/// How often a write is tried whose outcome is not known.
const TRIES: u32 = 5;
/// After the first of them; doubled each time.
const PAUSE: Duration = Duration::from_millis(100);
/// How often all rows are read again because others wrote some meanwhile.
const ROUNDS: u32 = 20;

/// Writes rows and records of one namespace on a person's behalf.
pub struct Operator {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: KeeperSettings,
    random: Random,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// How a write of a row ended.
enum Written {
    Done,
    /// Somebody else wrote the row; as it is now, if it is still there.
    Changed(Option<Row>),
}

impl Operator {
    /// An operator of the namespace and layout of these settings.
    pub fn new(settings: KeeperSettings, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self::with_random(settings, store, clock, random::of_the_system())
    }

    /// Like [`Self::new`], with the source of tokens passed in: for tests and simulations.
    /// Everything else must use the operating system's randomness, because tokens must never
    /// repeat.
    pub fn with_random(
        settings: KeeperSettings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Box<dyn Rng + Send + Sync>,
    ) -> Self {
        Self { store, clock, settings, random }
    }

    fn fresh_token(&mut self) -> Token {
        random::fresh_token(&mut self.random)
    }

    /// All workers of a layout under one of its reserved keys.
    fn scope(&self, layout: &Layout, reserved_key: &str) -> Scope {
        let all = Scope::new(&self.settings.namespace, layout, 0, layout.largest_worker());
        Scope { reserved_key: reserved_key.to_owned(), ..all }
    }

    /// Every row of the namespace that a node of this layout may use, under whatever reserved
    /// value. The others are of layouts before it, and nobody uses them.
    async fn rows_of(&self, layout: &Layout) -> Result<Vec<ListedRow>, OperatorError> {
        let keys = layout.reserved_keys();
        let mut rows = self.store.list().await?;
        rows.retain(|listed| {
            listed.namespace == self.settings.namespace
                && keys.contains(&listed.reserved_key)
                && listed.row.worker <= layout.largest_worker()
        });
        Ok(rows)
    }

    /// Adds the rows of a layout that are missing, for every value of its reserved bits: what a
    /// node adds later would know nothing of what was decided now.
    /// `false` when the record changed, or the store's clock is past `until_ms`.
    async fn add_missing_rows(
        &mut self,
        layout: &Layout,
        marks: &HighWaterMarks,
        record: Token,
        until_ms: i64,
    ) -> Result<bool, StoreError> {
        for key in layout.reserved_keys() {
            let scope = self.scope(layout, &key);
            let tokens = tokens_of_birth(&scope, || self.fresh_token());
            let new = NewRows { marks: marks.clone(), tokens, record, until_ms };
            if !self.store.create_rows(&scope, &new).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The store's clock, which what is written next will stand by: so this machine's must agree,
    /// where it is another one.
    async fn store_now_ms(&self) -> Result<i64, OperatorError> {
        let layout = &self.settings.layout;
        let sent_ms = self.clock.now_ms();
        let survey = self.store.survey(&self.scope(layout, &layout.reserved_key())).await?;
        let (store_ms, received_ms) = (survey.now_ms, self.clock.now_ms());
        let ahead_ms = StoreReading { sent_ms, store_ms, received_ms }.node_ahead_ms();
        let most = self.settings.lease.max_clock_skew;
        if !self.store.clock_is_local() && ahead_ms.saturating_abs() > millis(most) {
            return Err(OperatorError::ClocksDisagree { ahead_ms, most });
        }
        Ok(store_ms)
    }

    /// Writes a row as it was read: free, with a fresh token and these marks.
    ///
    /// An unknown outcome is settled as a node would: by the tokens of our own attempts. One that
    /// is visible is repeated until a write is acknowledged.
    async fn write(
        &mut self,
        scope: &Scope,
        row: &Row,
        lane: usize,
        marks: &HighWaterMarks,
    ) -> Result<Written, StoreError> {
        let mut tenure: Tenure<()> = Tenure::of(row);
        let keeps_token = planted(Bug::RaiseKeepsToken) && *marks != row.marks;
        let mut failure = None;
        for attempt in 0..=TRIES {
            if attempt > 0 {
                match self.store.row(scope, row.worker).await {
                    Ok(found) => match tenure.resolve(found.as_ref()) {
                        // It may still arrive: the next one starts from the same token.
                        Resolution::Unchanged | Resolution::Visible => {}
                        Resolution::Lost | Resolution::Vanished => {
                            return Ok(Written::Changed(found));
                        }
                    },
                    Err(error) => failure = Some(error),
                }
            }
            if attempt == TRIES {
                break;
            }
            let write = RowWrite {
                token: if keeps_token { row.token } else { self.fresh_token() },
                // So that a node which prefers its former row finds it.
                holder: row.holder.clone(),
                lane,
                marks: marks.clone(),
                expiry: RowExpiry::Released,
            };
            tenure.sent(write.clone(), ());
            match self.store.swap(scope, row.worker, tenure.token(), &write).await {
                Ok(true) => return Ok(Written::Done),
                Ok(false) => {}
                Err(error) => {
                    failure = Some(error);
                    sleep(PAUSE * 2_u32.pow(attempt)).await;
                }
            }
        }
        Err(failure.unwrap_or_else(|| StoreError::Refused("the row is never swapped".into())))
    }

    /// Replaces the record as it was read by what `change` makes of it; the record as it is then.
    /// With another token in it, somebody else is at work.
    async fn write_record(
        &mut self,
        before: &LayoutRecord,
        change: impl Fn(&mut LayoutRecord),
    ) -> Result<LayoutRecord, OperatorError> {
        let namespace = self.settings.namespace.clone();
        let mut record = before.clone();
        change(&mut record);
        let mut expected = before.token;
        let mut sent: Vec<Token> = Vec::new();
        let mut failure = None;
        for attempt in 0..=TRIES {
            if attempt > 0 {
                match self.store.read_record(&namespace).await {
                    // It may still arrive; whichever comes first refuses the other.
                    Ok(Some(found)) if found.token == expected => {}
                    // Visible, and durable once the next one is acknowledged.
                    Ok(Some(found)) if sent.contains(&found.token) => expected = found.token,
                    Ok(found) => {
                        let found = found.map(|record| record.words);
                        return Err(OperatorError::RecordChanged { namespace, found });
                    }
                    Err(error) => failure = Some(error),
                }
            }
            if attempt == TRIES {
                break;
            }
            record.token = self.fresh_token();
            sent.push(record.token);
            match self.store.swap_record(&namespace, expected, &record).await {
                Ok(true) => return Ok(record),
                Ok(false) => {}
                Err(error) => {
                    failure = Some(error);
                    sleep(PAUSE * 2_u32.pow(attempt)).await;
                }
            }
        }
        let never = || StoreError::Refused("the layout record is never swapped".into());
        Err(failure.unwrap_or_else(never).into())
    }

    /// The record, if it still says this. What was read before this look was read before anybody
    /// else could act on other words.
    async fn still_recorded(&self, words: &str) -> Result<LayoutRecord, OperatorError> {
        let namespace = self.settings.namespace.clone();
        match self.store.read_record(&namespace).await? {
            Some(record) if record.words == words => Ok(record),
            found => {
                let found = found.map(|record| record.words);
                Err(OperatorError::RecordChanged { namespace, found })
            }
        }
    }

    fn moving(&self, relayout: Relayout) -> OperatorError {
        OperatorError::Moving { namespace: self.settings.namespace.clone(), to: relayout.to }
    }
}

/// Refuses a row whose marks are not the layout's.
fn check_lanes(layout: &Layout, listed: &ListedRow) -> Result<(), OperatorError> {
    let (found, expected) = (listed.row.marks.lanes(), layout.lanes());
    if found == expected {
        return Ok(());
    }
    let (worker, reserved_key) = (listed.row.worker, listed.reserved_key.clone());
    Err(OperatorError::OtherLanes { worker, reserved_key, found, expected })
}
