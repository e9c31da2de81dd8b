//! A memory store whose answers can be made to fail.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::{
    core::{
        clock::ManualClock,
        lease::{Row, RowWrite, Token},
    },
    store::{
        LayoutRecord, ListedRow, ListedSegment, MemoryStore, NewRows, NewSegment, Reservation,
        Reserved, Scope, SegmentStore, Snapshot, Store, StoreError, Survey,
    },
};

/// What becomes of the next swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not applied, and the caller does not learn that.
    NeverArrives,
    /// It is applied, and the caller does not learn that.
    LostReply,
    /// It is kept back until [`FaultyStore::deliver`], and the caller does not learn that.
    Late,
    /// What was kept back arrives just before it.
    AfterLate,
}

/// Namespace, code, the reservation's token, the first unused number, the fresh token.
type LateGiveBack = (String, String, Token, u64, Token);

/// Decides what becomes of each swap.
type Decide = Box<dyn FnMut(&RowWrite) -> Option<Fault> + Send>;

pub(super) struct FaultyStore {
    inner: MemoryStore,
    faults: Mutex<Vec<Fault>>,
    decide: Mutex<Option<Decide>>,
    /// The worker ids and writes of the swaps that were acknowledged, while somebody decides.
    pub(super) acknowledged: Mutex<Vec<(u64, RowWrite)>>,
    late: Mutex<Vec<(Scope, u64, Token, RowWrite)>>,
    record_faults: Mutex<Vec<Fault>>,
    late_records: Mutex<Vec<(String, Token, LayoutRecord)>>,
    late_give_backs: Mutex<Vec<LateGiveBack>>,
    /// What a crash falls back to, while something is visible that was not acknowledged.
    durable: Mutex<Option<Snapshot>>,
    down: AtomicBool,
    unusable: AtomicBool,
    wiped: AtomicBool,
    /// The next look at the free rows is the last thing before they and the record are wiped.
    wipes_after_rows: AtomicBool,
    /// The list that waits, counted from 0, and until when.
    paused_list: Mutex<Option<(u32, Arc<Notify>)>>,
    latency: Duration,
    steps: Mutex<Vec<(Arc<ManualClock>, i64)>>,
    pub(super) swaps: AtomicU64,
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").finish_non_exhaustive()
    }
}

impl FaultyStore {
    pub(super) fn new(inner: MemoryStore) -> Self {
        Self {
            inner,
            faults: Mutex::default(),
            decide: Mutex::default(),
            acknowledged: Mutex::default(),
            late: Mutex::default(),
            record_faults: Mutex::default(),
            late_records: Mutex::default(),
            late_give_backs: Mutex::default(),
            durable: Mutex::default(),
            down: AtomicBool::new(false),
            unusable: AtomicBool::new(false),
            wiped: AtomicBool::new(false),
            wipes_after_rows: AtomicBool::new(false),
            paused_list: Mutex::default(),
            latency: Duration::ZERO,
            steps: Mutex::default(),
            swaps: AtomicU64::new(0),
        }
    }

    /// Every answer takes this long.
    pub(super) fn with_latency(self, latency: Duration) -> Self {
        Self { latency, ..self }
    }

    /// While a coming survey is answered, this clock steps by so many ms; the last one first.
    pub(super) fn step_during_survey(&self, clock: &Arc<ManualClock>, by_ms: i64) {
        self.steps.lock().expect("unpoisoned").push((clock.clone(), by_ms));
    }

    /// The coming swaps meet these faults, the last one first.
    pub(super) fn fail_next(&self, fault: Fault) {
        self.faults.lock().expect("unpoisoned").push(fault);
    }

    /// The coming writes of records meet these faults, the last one first.
    pub(super) fn fail_next_record(&self, fault: Fault) {
        self.record_faults.lock().expect("unpoisoned").push(fault);
    }

    /// Holds the coming writes back in the store's memory: visible, and never acknowledged.
    pub(super) fn hang_the_log(&self) {
        (0..100).for_each(|_| self.fail_next(Fault::LostReply));
    }

    /// Lets each coming swap be decided on, or no longer.
    pub(super) fn decide(&self, decide: Option<Decide>) {
        *self.decide.lock().expect("unpoisoned") = decide;
    }

    /// No coming swap meets a fault.
    pub(super) fn forgive(&self) {
        self.faults.lock().expect("unpoisoned").clear();
    }

    pub(super) fn backup(&self) -> Snapshot {
        self.inner.snapshot()
    }

    pub(super) fn put_back(&self, backup: Snapshot) {
        self.inner.restore(backup);
    }

    pub(super) fn lose_record(&self, namespace: &str) {
        self.inner.lose_record(namespace);
    }

    pub(super) fn lose_row(&self, scope: &Scope, worker: u64) {
        self.inner.lose_row(scope, worker);
    }

    /// The list after `skip` others waits until it is notified.
    pub(super) fn pause_list(&self, skip: u32) -> Arc<Notify> {
        let go_on = Arc::new(Notify::new());
        *self.paused_list.lock().expect("unpoisoned") = Some((skip, Arc::clone(&go_on)));
        go_on
    }

    fn waits_for(&self) -> Option<Arc<Notify>> {
        let mut paused = self.paused_list.lock().expect("unpoisoned");
        let (skip, go_on) = paused.take()?;
        if skip == 0 {
            return Some(go_on);
        }
        *paused = Some((skip - 1, go_on));
        None
    }

    pub(super) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// Every question fails, however often it is asked.
    pub(super) fn set_unusable(&self) {
        self.unusable.store(true, Ordering::SeqCst);
    }

    /// Rows and records seem to be gone, or are back.
    pub(super) fn wipe(&self, wiped: bool) {
        self.wiped.store(wiped, Ordering::SeqCst);
    }

    /// Rows and records seem to be gone as soon as the free rows were read.
    pub(super) fn wipe_after_rows(&self) {
        self.wipes_after_rows.store(true, Ordering::SeqCst);
    }

    /// Crashes: what was visible and not acknowledged is lost.
    pub(super) fn crash(&self) {
        if let Some(durable) = self.durable.lock().expect("unpoisoned").take() {
            self.inner.restore(durable);
        }
    }

    /// A write that others can see, and that nobody is told of.
    async fn visible(&self, scope: &Scope, worker: u64, expected: Token, write: &RowWrite) -> bool {
        let before = self.inner.snapshot();
        self.durable.lock().expect("unpoisoned").get_or_insert(before);
        let swapped = self.inner.swap(scope, worker, expected, write).await;
        swapped.expect("memory does not fail")
    }

    /// A write that is durable, and with it everything before it.
    async fn acknowledged(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool, StoreError> {
        let swapped = self.inner.swap(scope, worker, expected, write).await?;
        if swapped {
            *self.durable.lock().expect("unpoisoned") = None;
            if self.decide.lock().expect("unpoisoned").is_some() {
                self.acknowledged.lock().expect("unpoisoned").push((worker, write.clone()));
            }
        }
        Ok(swapped)
    }

    /// Segment codes are gone.
    pub(super) fn lose_segments(&self) {
        self.inner.lose_segments();
    }

    /// Applies the writes that were kept back; how many took place.
    pub(super) async fn deliver(&self) -> usize {
        let late = std::mem::take(&mut *self.late.lock().expect("unpoisoned"));
        let mut took_place = 0;
        for (scope, worker, expected, write) in late {
            took_place += usize::from(self.visible(&scope, worker, expected, &write).await);
        }
        took_place
    }

    /// Applies the writes of records that were kept back; how many took place.
    pub(super) async fn deliver_records(&self) -> usize {
        let late = std::mem::take(&mut *self.late_records.lock().expect("unpoisoned"));
        let mut took_place = 0;
        for (namespace, expected, record) in late {
            let swapped = self.inner.swap_record(&namespace, expected, &record).await;
            took_place += usize::from(swapped.expect("memory does not fail"));
        }
        took_place
    }

    /// Applies the give-backs that were kept back; how many took place.
    pub(super) async fn deliver_give_backs(&self) -> usize {
        let late = std::mem::take(&mut *self.late_give_backs.lock().expect("unpoisoned"));
        let mut took_place = 0;
        for (namespace, code, reserved, from, token) in late {
            let given = self.inner.give_back(&namespace, &code, reserved, from, token).await;
            took_place += usize::from(given.expect("memory does not fail"));
        }
        took_place
    }

    async fn answer(&self) -> Result<(), StoreError> {
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        if self.unusable.load(Ordering::SeqCst) {
            return Err(StoreError::Unusable("planned by the test".to_owned()));
        }
        if self.down.load(Ordering::SeqCst) { Err(unavailable()) } else { Ok(()) }
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("planned by the test".into())
}

#[async_trait]
impl Store for FaultyStore {
    fn clock_is_local(&self) -> bool {
        self.inner.clock_is_local()
    }

    async fn prepare(&self) -> Result<Vec<String>, StoreError> {
        self.answer().await?;
        self.inner.prepare().await
    }

    async fn create_record(
        &self,
        namespace: &str,
        record: &LayoutRecord,
    ) -> Result<LayoutRecord, StoreError> {
        self.answer().await?;
        self.inner.create_record(namespace, record).await
    }

    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>, StoreError> {
        self.answer().await?;
        self.inner.read_record(namespace).await
    }

    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool, StoreError> {
        self.answer().await?;
        let fault = self.record_faults.lock().expect("unpoisoned").pop();
        match fault {
            None => {}
            Some(Fault::AfterLate) => {
                self.deliver_records().await;
            }
            Some(Fault::NeverArrives) => return Err(unavailable()),
            Some(Fault::LostReply) => {
                self.inner.swap_record(namespace, expected, record).await?;
                return Err(unavailable());
            }
            Some(Fault::Late) => {
                let kept_back = (namespace.to_owned(), expected, record.clone());
                self.late_records.lock().expect("unpoisoned").push(kept_back);
                return Err(unavailable());
            }
        }
        self.inner.swap_record(namespace, expected, record).await
    }

    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool, StoreError> {
        self.answer().await?;
        self.inner.create_rows(scope, new).await
    }

    async fn survey(&self, scope: &Scope) -> Result<Survey, StoreError> {
        self.answer().await?;
        let mut survey = self.inner.survey(scope).await?;
        if let Some((clock, by_ms)) = self.steps.lock().expect("unpoisoned").pop() {
            clock.step(by_ms);
        }
        survey.record = survey.record.filter(|_| !self.wiped.load(Ordering::SeqCst));
        Ok(survey)
    }

    async fn free_rows(&self, scope: &Scope, limit: u32) -> Result<Vec<Row>, StoreError> {
        self.answer().await?;
        if self.wipes_after_rows.swap(false, Ordering::SeqCst) {
            self.wipe(true);
        }
        self.inner.free_rows(scope, limit).await
    }

    async fn free_row_of(&self, scope: &Scope, holder: &str) -> Result<Option<Row>, StoreError> {
        self.answer().await?;
        self.inner.free_row_of(scope, holder).await
    }

    async fn row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>, StoreError> {
        self.answer().await?;
        let row = self.inner.row(scope, worker).await?;
        Ok(row.filter(|_| !self.wiped.load(Ordering::SeqCst)))
    }

    async fn swap(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool, StoreError> {
        self.answer().await?;
        self.swaps.fetch_add(1, Ordering::SeqCst);
        let decided = self.decide.lock().expect("unpoisoned").as_mut().map(|decide| decide(write));
        let fault = match decided {
            Some(fault) => fault,
            None => self.faults.lock().expect("unpoisoned").pop(),
        };
        match fault {
            None => self.acknowledged(scope, worker, expected, write).await,
            Some(Fault::AfterLate) => {
                self.deliver().await;
                self.acknowledged(scope, worker, expected, write).await
            }
            Some(Fault::NeverArrives) => Err(unavailable()),
            Some(Fault::LostReply) => {
                self.visible(scope, worker, expected, write).await;
                Err(unavailable())
            }
            Some(Fault::Late) => {
                let kept_back = (scope.clone(), worker, expected, write.clone());
                self.late.lock().expect("unpoisoned").push(kept_back);
                Err(unavailable())
            }
        }
    }

    async fn list(&self) -> Result<Vec<ListedRow>, StoreError> {
        if let Some(go_on) = self.waits_for() {
            go_on.notified().await;
        }
        self.answer().await?;
        self.inner.list().await
    }

    async fn close(&self) {}
}

#[async_trait]
impl SegmentStore for FaultyStore {
    fn segment_table(&self) -> &str {
        self.inner.segment_table()
    }

    async fn prepare_segments(&self) -> Result<(), StoreError> {
        self.answer().await?;
        self.inner.prepare_segments().await
    }

    async fn create_segments(
        &self,
        namespace: &str,
        codes: &[NewSegment],
    ) -> Result<(), StoreError> {
        self.answer().await?;
        self.inner.create_segments(namespace, codes).await
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved, StoreError> {
        self.answer().await?;
        let fault = self.faults.lock().expect("unpoisoned").pop();
        if fault == Some(Fault::NeverArrives) {
            return Err(unavailable());
        }
        let reserved = self.inner.reserve(namespace, code, reservation).await?;
        if fault.is_some() { Err(unavailable()) } else { Ok(reserved) }
    }

    async fn give_back(
        &self,
        namespace: &str,
        code: &str,
        reserved: Token,
        from: u64,
        token: Token,
    ) -> Result<bool, StoreError> {
        self.answer().await?;
        if self.faults.lock().expect("unpoisoned").pop().is_some() {
            let kept_back = (namespace.to_owned(), code.to_owned(), reserved, from, token);
            self.late_give_backs.lock().expect("unpoisoned").push(kept_back);
            return Err(unavailable());
        }
        self.inner.give_back(namespace, code, reserved, from, token).await
    }

    async fn segments(&self) -> Result<Vec<ListedSegment>, StoreError> {
        self.answer().await?;
        self.inner.segments().await
    }
}
