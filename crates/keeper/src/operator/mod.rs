//! Releases rows, begins an epoch beyond every lease, and moves a namespace to another layout, on
//! behalf of an operator.
//!
//! An operator's writes follow the same rules as those of nodes: each write of a row is one
//! compare-and-swap with a fresh random token, and none lowers a mark. So a lease that is held when
//! its row is written ends at its limit, and the next lease starts above it.

mod error;
mod preview;
mod raise;
mod relayout;
mod release;

use std::{collections::HashSet, sync::Arc};

use raindrop_core::{
    clock::Clock,
    instant::millis,
    layout::Layout,
    lease::{HighWaterMarks, KnownRow, Recorded, Resolution, Row, RowExpiry, RowWrite, Token},
};
use raindrop_store::{LayoutRecord, ListedRow, NewRows, Scope, Store, StoreError, Survey};
use rand::Rng;
use tokio::time::sleep;

pub use self::{
    error::OperatorError,
    preview::{RaisePreview, RelayoutPreview},
    relayout::{FinishedMove, RelayoutOutcome},
    release::WorkerRelease,
};
use crate::{
    history::{Followed, HistoryContext, KnownHistory},
    lease::settings::KeeperSettings,
    support::{
        error::LayoutError,
        observer::NoObserver,
        random::{Attempts, Random, system_random},
        store_call::timed,
    },
};

/// How many times a write is tried while its outcome is unknown.
const SWAP_TRIES: u32 = 5;
/// How many times all rows are read again because other processes wrote some of them meanwhile.
const ROUNDS: u32 = 20;

/// Writes rows and records of one namespace on behalf of an operator.
#[derive(Debug)]
pub struct Operator {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: KeeperSettings,
    random: Random,
    history: KnownHistory,
}

/// The result of a write of a row.
enum WriteOutcome {
    Acknowledged,
    /// Another process wrote the row, which is now as given; `None` if the row is missing.
    Changed(Option<Row>),
}

impl Operator {
    /// Returns an operator of the namespace and layout of these settings.
    pub fn new(settings: KeeperSettings, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self::with_random(settings, store, clock, system_random())
    }

    /// Returns an operator like [`Self::new`], with a given source of tokens, for tests and
    /// simulations. Any other caller must use the operating system's randomness, because tokens
    /// must never repeat.
    pub fn with_random(
        settings: KeeperSettings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Box<dyn Rng + Send + Sync>,
    ) -> Self {
        let history = KnownHistory::default();
        Self { store, clock, settings, random: Random(random), history }
    }

    /// Returns the scope of all workers of a layout under one of its reserved keys.
    fn scope(&self, layout: &Layout, reserved_key: &str) -> Scope {
        let all = Scope::new(&self.settings.namespace, layout, 0, layout.largest_worker());
        Scope { reserved_key: reserved_key.to_owned(), ..all }
    }

    /// Reads every row of the namespace that a node of this layout may use, under any reserved
    /// value. The other rows belong to earlier layouts and are not in use.
    async fn rows_of(&self, layout: &Layout) -> Result<Vec<ListedRow>, OperatorError> {
        let keys = layout.reserved_keys();
        let mut rows = self.store.list_rows().await?;
        for ListedRow { row, .. } in &mut rows {
            row.marks = self.history.marks(layout, row.epoch, &row.marks);
        }
        rows.retain(|listed| {
            listed.namespace == self.settings.namespace
                && keys.contains(&listed.reserved_key)
                && listed.row.worker <= layout.largest_worker()
        });
        Ok(rows)
    }

    /// Adds the missing rows of a layout, for every value of the reserved bits. A node that added
    /// them later would not know these marks. Returns `false` if the record changed, or if the
    /// store's clock is past `until_ms`.
    async fn add_missing_rows(
        &mut self,
        layout: &Layout,
        marks: &HighWaterMarks,
        record: Token,
        until_ms: i64,
    ) -> Result<bool, StoreError> {
        for key in layout.reserved_keys() {
            let scope = self.scope(layout, &key);
            let seed = self.random.fresh_token();
            let new = NewRows { marks: marks.clone(), seed, record, until_ms };
            if !self.store.create_rows(&scope, &new).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Follows the store into a new epoch if it failed over since a node used it, so that writes of
    /// rows can name the epoch. Returns the record and the store's clock (Unix ms).
    async fn follow_history(&mut self) -> Result<(LayoutRecord, i64), OperatorError> {
        let namespace = self.settings.namespace.clone();
        let scope = self.scope(&self.settings.layout, &self.settings.layout.reserved_key());
        for _ in 0..ROUNDS {
            let (survey, _, reading) = timed(&*self.clock, self.store.summary(&scope)).await?;
            let Some(record) = &survey.record else {
                return Err(OperatorError::NoRecord { namespace });
            };
            let layout = Layout::from_canonical(Recorded::read(&record.canonical)?.present())?;
            let context = HistoryContext {
                store: &*self.store,
                steady: self.clock.steady(),
                observer: &NoObserver,
                namespace: &namespace,
                layout: Some(&layout),
                clocks: reading.epoch_clocks(self.settings.lease.window),
                own: self.settings.lease.of_node(),
                leases: false,
                until_ms: None,
            };
            let fresh = || self.random.fresh_token();
            let followed = self.history.follow(&context, &survey, record, fresh).await?;
            if followed == Followed::Current {
                return Ok((record.clone(), survey.now_ms));
            }
        }
        Err(OperatorError::Contended)
    }

    /// Surveys the store, whose clock decides the next writes. This machine's clock must agree with
    /// it, unless the store uses this machine's.
    async fn survey(&self) -> Result<Survey, OperatorError> {
        let layout = &self.settings.layout;
        let scope = self.scope(layout, &layout.reserved_key());
        let (survey, _, reading) = timed(&*self.clock, self.store.summary(&scope)).await?;
        let ahead_ms = reading.node_ahead_ms();
        let most = self.settings.lease.max_clock_skew;
        if !self.store.clock_is_local() && ahead_ms.saturating_abs() > millis(most) {
            return Err(OperatorError::ClocksDisagree { ahead_ms, most });
        }
        Ok(survey)
    }

    /// Writes a row as it was read, with a fresh token and these marks.
    ///
    /// If the outcome is unknown, resolves it as a node does, by the tokens of the command's own
    /// writes. Repeats a visible write until the store acknowledges one.
    async fn write(
        &mut self,
        scope: &Scope,
        row: &Row,
        lane: usize,
        (marks, expiry): (&HighWaterMarks, RowExpiry),
    ) -> Result<WriteOutcome, StoreError> {
        let mut known_row: KnownRow<()> = KnownRow::of(row);
        let (mut failure, mut attempts) = (None, Attempts::default());
        for _ in 0..SWAP_TRIES {
            let write = RowWrite {
                token: self.random.fresh_token(),
                epoch: self.history.epoch(),
                // The holder label stays, so that a node which prefers its former row finds it.
                holder: row.holder.clone(),
                lane,
                marks: marks.clone(),
                expiry,
            };
            let sent = known_row.sent(write, ());
            let swapped = self.store.swap_row(scope, sent.worker(), sent.expected(), sent.write());
            let swapped = swapped.await;
            if self.pause_unless_answered(swapped, &mut attempts, &mut failure).await {
                return Ok(WriteOutcome::Acknowledged);
            }
            match self.store.read_row(scope, row.worker).await {
                Ok(found) => match known_row.resolve(found.as_ref()) {
                    // The write may still arrive: the next one starts from the same token.
                    Resolution::Unchanged | Resolution::Visible => {}
                    Resolution::Lost | Resolution::Vanished => {
                        return Ok(WriteOutcome::Changed(found));
                    }
                },
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| StoreError::Refused("the row is never swapped".into())))
    }

    /// Replaces the record that was read with a changed one, and returns that. Fails if the record
    /// is found with a token that this operator did not set: another process has changed it.
    async fn write_record(
        &mut self,
        before: &LayoutRecord,
        change: impl Fn(&mut LayoutRecord),
    ) -> Result<LayoutRecord, OperatorError> {
        let mut record = before.clone();
        change(&mut record);
        let mut expected = before.token;
        let mut sent: Vec<Token> = Vec::new();
        let (mut failure, mut attempts) = (None, Attempts::default());
        for _ in 0..SWAP_TRIES {
            record.token = self.random.fresh_token();
            sent.push(record.token);
            let namespace = self.settings.namespace.clone();
            let swapped = self.store.swap_record(&namespace, expected, &record).await;
            if self.pause_unless_answered(swapped, &mut attempts, &mut failure).await {
                return Ok(record);
            }
            match self.store.read_record(&namespace).await {
                // The write may still arrive. The first of the two to arrive makes the store refuse
                // the other.
                Ok(Some(found)) if found.token == expected => {}
                // A visible write, which is durable once the next one is acknowledged.
                Ok(Some(found)) if sent.contains(&found.token) => expected = found.token,
                Ok(found) => return Err(self.record_changed(found)),
                Err(error) => failure = Some(error),
            }
        }
        let never = || StoreError::Refused("the layout record is never swapped".into());
        Err(failure.unwrap_or_else(never).into())
    }

    /// Returns whether a swap was acknowledged. After an error, stores it in `failure` and pauses.
    async fn pause_unless_answered(
        &mut self,
        swapped: Result<bool, StoreError>,
        attempts: &mut Attempts,
        failure: &mut Option<StoreError>,
    ) -> bool {
        match swapped {
            Ok(acknowledged) => acknowledged,
            Err(error) => {
                *failure = Some(error);
                sleep(attempts.failed(&mut self.random)).await;
                false
            }
        }
    }

    /// Rewrites every row of a layout with the marks and the expiry that `change` returns, until
    /// each row was written once without a write of another process in between. Returns the rows
    /// afterwards. Fails if another process replaces the record: then rows may be in the units of
    /// another layout.
    async fn rewrite_rows(
        &mut self,
        layout: &Layout,
        record: &LayoutRecord,
        change: impl Fn(&ListedRow) -> Result<(HighWaterMarks, RowExpiry), OperatorError>,
    ) -> Result<Vec<ListedRow>, OperatorError> {
        let mut written = HashSet::new();
        for _ in 0..ROUNDS {
            let rows = self.rows_under(record, layout).await?;
            let mut all_written = true;
            for listed in &rows {
                let (key, row) = (&listed.reserved_key, &listed.row);
                let (marks, expiry) = change(listed)?;
                if written.contains(&(key.clone(), row.worker)) {
                    continue;
                }
                all_written = false;
                let scope = self.scope(layout, key);
                let outcome = self.write(&scope, row, row.lane, (&marks, expiry)).await?;
                if let WriteOutcome::Acknowledged = outcome {
                    written.insert((key.clone(), row.worker));
                }
            }
            if all_written {
                return Ok(rows);
            }
        }
        Err(OperatorError::Contended)
    }

    /// Reads the rows of a layout under this record. Fails if another process has replaced the
    /// record: then rows may be in the units of another layout. An operator that replaces it later
    /// gives every row a fresh token, so the store refuses swaps of the rows as they were read.
    async fn rows_under(
        &self,
        record: &LayoutRecord,
        layout: &Layout,
    ) -> Result<Vec<ListedRow>, OperatorError> {
        let rows = self.rows_of(layout).await?;
        match self.store.read_record(&self.settings.namespace).await? {
            Some(present) if present.token == record.token => Ok(rows),
            found => Err(self.record_changed(found)),
        }
    }

    fn record_changed(&self, found: Option<LayoutRecord>) -> OperatorError {
        let namespace = self.settings.namespace.clone();
        OperatorError::RecordChanged { namespace, found: found.map(|record| record.canonical) }
    }
}

/// Refuses a row that has other lanes than the layout.
fn check_lanes(layout: &Layout, listed: &ListedRow) -> Result<(), OperatorError> {
    let (found, expected) = (listed.row.marks.lanes(), layout.lanes());
    if found == expected {
        return Ok(());
    }
    let (worker, reserved_key) = (listed.row.worker, listed.reserved_key.clone());
    Err(OperatorError::OtherLanes { worker, reserved_key, found, expected })
}
