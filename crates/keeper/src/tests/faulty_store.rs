//! A memory store that can fail in many ways.

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

use raindrop_core::{
    clock::ManualClock,
    lease::{Row, RowWrite},
};
use raindrop_store::{
    Call, Intercept, LayoutRecord, MemoryStore, Reply, Reserved, Scope, Snapshot, Store,
    StoreError, Survey,
};

/// The fate of the next swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The swap is not applied, and the caller gets no answer.
    NeverArrives,
    /// The swap is applied, but the caller gets no answer.
    LostReply,
    /// The swap is delayed until [`FaultyStore::deliver`], and the caller gets no answer.
    Late,
    /// Delayed swaps arrive just before this one.
    AfterLate,
    /// The swap is refused, although it starts from the row's token.
    Refused,
}

/// A stored value that cannot be read, because another program or a person changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// The value of this worker's row in this column.
    Row(u64, &'static str),
    /// The token of the record, which some engines read with each row.
    Record,
}

/// Decides the fate of each swap.
type Decide = Box<dyn FnMut(&RowWrite) -> Option<Fault> + Send>;

pub(super) struct FaultyStore {
    inner: MemoryStore,
    faults: Mutex<Vec<Fault>>,
    decide: Mutex<Option<Decide>>,
    /// The worker ids and writes of acknowledged swaps, while a decision is set.
    pub(super) acknowledged: Mutex<Vec<(u64, RowWrite)>>,
    late: Mutex<Vec<Call>>,
    record_faults: Mutex<Vec<Fault>>,
    text_faults: Mutex<Vec<Fault>>,
    /// The code whose reservations all come too late: other nodes change the record before each of
    /// them.
    contended: Mutex<Option<String>>,
    late_records: Mutex<Vec<Call>>,
    damage: Mutex<Option<Damage>>,
    /// The state to which a crash returns, if something is visible that was not acknowledged.
    durable: Mutex<Option<Snapshot>>,
    down: AtomicBool,
    unusable: AtomicBool,
    refuses_preparation: AtomicBool,
    wiped: AtomicBool,
    /// Whether rows and record are wiped right after the next read of the free rows.
    wipes_after_rows: AtomicBool,
    /// The list that waits, counted from 0, and the notification that ends its wait.
    paused_list: Mutex<Option<(u32, Arc<Notify>)>>,
    latency: Duration,
    steps: Mutex<Vec<(Arc<ManualClock>, i64)>>,
    pub(super) swaps: AtomicU64,
    /// Number of calls while the store was down.
    pub(super) unanswered: AtomicU64,
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
            text_faults: Mutex::default(),
            contended: Mutex::default(),
            late_records: Mutex::default(),
            damage: Mutex::default(),
            durable: Mutex::default(),
            down: AtomicBool::new(false),
            unusable: AtomicBool::new(false),
            refuses_preparation: AtomicBool::new(false),
            wiped: AtomicBool::new(false),
            wipes_after_rows: AtomicBool::new(false),
            paused_list: Mutex::default(),
            latency: Duration::ZERO,
            steps: Mutex::default(),
            swaps: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
        }
    }

    /// Delays every answer by this time.
    pub(super) fn with_latency(self, latency: Duration) -> Self {
        Self { latency, ..self }
    }

    /// Makes this clock step by this many ms while a coming survey is answered; the last call
    /// first.
    pub(super) fn step_during_survey(&self, clock: &Arc<ManualClock>, by_ms: i64) {
        self.steps.lock().expect("unpoisoned").push((clock.clone(), by_ms));
    }

    /// Makes the coming swaps meet these faults; the last call first.
    pub(super) fn fail_next(&self, fault: Fault) {
        self.faults.lock().expect("unpoisoned").push(fault);
    }

    /// Makes the coming writes of records meet these faults; the last call first.
    pub(super) fn fail_next_record(&self, fault: Fault) {
        self.record_faults.lock().expect("unpoisoned").push(fault);
    }

    /// Makes the coming writes of texts of idempotency keys meet these faults; the last call first.
    pub(super) fn fail_next_text(&self, fault: Fault) {
        self.text_faults.lock().expect("unpoisoned").push(fault);
    }

    /// Applies the delayed writes of texts.
    pub(super) async fn deliver_texts(&self) {
        let late = std::mem::take(&mut *self.late.lock().expect("unpoisoned"));
        for write in late {
            write.run(&self.inner).await.expect("memory does not fail");
        }
    }

    /// Makes the token of a worker's row one that cannot be read, as a person may; with `None`, no
    /// row's.
    pub(super) fn damage(&self, worker: Option<u64>) {
        *self.damage.lock().expect("unpoisoned") = worker.map(|it| Damage::Row(it, "token"));
    }

    /// Makes another value than the token of a worker's row one that cannot be read. The next write
    /// of the row repairs it.
    pub(super) fn damage_value(&self, worker: u64) {
        *self.damage.lock().expect("unpoisoned") = Some(Damage::Row(worker, "heartbeat_at"));
    }

    /// Makes the token of the record one that cannot be read.
    pub(super) fn damage_record(&self) {
        *self.damage.lock().expect("unpoisoned") = Some(Damage::Record);
    }

    fn is_record_damaged(&self) -> bool {
        *self.damage.lock().expect("unpoisoned") == Some(Damage::Record)
    }

    /// Returns the column of a worker's row that cannot be read.
    pub(super) fn damaged(&self, worker: u64) -> Option<&'static str> {
        match *self.damage.lock().expect("unpoisoned") {
            Some(Damage::Row(damaged, column)) if damaged == worker => Some(column),
            _ => None,
        }
    }

    /// Applies a write of a row. Returns whether it took place. A write repairs the row, unless its
    /// token is damaged: no write names such a token.
    async fn apply(&self, write: &Call) -> Result<bool, StoreError> {
        let Call::SwapRow(_, worker, ..) = write else {
            return write.takes_place(&self.inner).await;
        };
        let damaged = self.damaged(*worker);
        if damaged == Some("token") {
            return Ok(false);
        }
        let took_place = write.takes_place(&self.inner).await?;
        if took_place && damaged.is_some() {
            self.damage(None);
        }
        Ok(took_place)
    }

    /// Makes every reservation of this code too late from now on; with `None`, no reservation.
    pub(super) fn contend(&self, code: Option<&str>) {
        *self.contended.lock().expect("unpoisoned") = code.map(str::to_owned);
    }

    /// Makes the coming writes visible without acknowledging them, as if the log hung.
    pub(super) fn hang_the_log(&self) {
        (0..100).for_each(|_| self.fail_next(Fault::LostReply));
    }

    /// Lets `decide` choose the fate of each coming swap; `None` ends that.
    pub(super) fn decide(&self, decide: Option<Decide>) {
        *self.decide.lock().expect("unpoisoned") = decide;
    }

    /// Removes the faults of the coming swaps.
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

    /// Changes the layout in the namespace's record. Returns the former one.
    pub(super) async fn swap_layout(&self, canonical: &str) -> String {
        let record = self.read_record("default").await.expect("up").expect("a record");
        let other = LayoutRecord { canonical: canonical.to_owned(), ..record.clone() };
        assert!(Store::swap_record(self, "default", record.token, &other).await.expect("up"));
        record.canonical
    }

    pub(super) fn lose_row(&self, scope: &Scope, worker: u64) {
        self.inner.lose_row(scope, worker);
    }

    /// Makes the list after `skip` others wait until it is notified.
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

    /// Makes every call fail, however often it is repeated.
    pub(super) fn set_unusable(&self) {
        self.unusable.store(true, Ordering::SeqCst);
    }

    /// Refuses to be prepared, as a store does that has not the id in the settings.
    pub(super) fn refuse_preparation(&self, refuses: bool) {
        self.refuses_preparation.store(refuses, Ordering::SeqCst);
    }

    /// Hides rows and records, or shows them again.
    pub(super) fn wipe(&self, wiped: bool) {
        self.wiped.store(wiped, Ordering::SeqCst);
    }

    /// Hides rows and records as soon as the free rows were read.
    pub(super) fn wipe_after_rows(&self) {
        self.wipes_after_rows.store(true, Ordering::SeqCst);
    }

    /// Crashes: visible writes that were not acknowledged are lost.
    pub(super) fn crash(&self) {
        if let Some(durable) = self.durable.lock().expect("unpoisoned").take() {
            self.inner.restore(durable);
        }
    }

    /// Returns the present content of the store.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }

    /// Becomes a server of this identity, with this content.
    pub(super) fn fail_over(&self, identity: &str, held: Snapshot) {
        self.inner.fail_over(identity, held);
    }

    /// Applies a write that reads show and that is never acknowledged.
    async fn visible(&self, write: &Call) -> bool {
        let before = self.inner.snapshot();
        self.durable.lock().expect("unpoisoned").get_or_insert(before);
        self.apply(write).await.expect("memory does not fail")
    }

    /// Applies a write durably, and with it everything before it.
    async fn acknowledged(&self, swap: &Call) -> Result<Reply, StoreError> {
        let took_place = self.apply(swap).await?;
        if took_place {
            *self.durable.lock().expect("unpoisoned") = None;
            if self.decide.lock().expect("unpoisoned").is_some()
                && let Call::SwapRow(_, worker, _, write) = swap
            {
                self.acknowledged.lock().expect("unpoisoned").push((*worker, write.clone()));
            }
        }
        Ok(Box::new(took_place))
    }

    /// Removes the rows of segment codes.
    pub(super) fn lose_segments(&self) {
        self.inner.lose_segments();
    }

    /// Applies the delayed swaps. Returns how many took place.
    pub(super) async fn deliver(&self) -> usize {
        let late = std::mem::take(&mut *self.late.lock().expect("unpoisoned"));
        let mut took_place = 0;
        for write in late {
            took_place += usize::from(self.visible(&write).await);
        }
        took_place
    }

    /// Applies the delayed writes of records. Returns how many took place.
    pub(super) async fn deliver_records(&self) -> usize {
        let late = std::mem::take(&mut *self.late_records.lock().expect("unpoisoned"));
        let mut took_place = 0;
        for write in late {
            let swapped = write.takes_place(&self.inner).await;
            took_place += usize::from(swapped.expect("memory does not fail"));
        }
        took_place
    }

    fn next_fault(&self) -> Option<Fault> {
        self.faults.lock().expect("unpoisoned").pop()
    }

    fn keep_back(&self, write: Call) {
        self.late.lock().expect("unpoisoned").push(write);
    }

    async fn swap(&self, swap: Call, write: &RowWrite) -> Result<Reply, StoreError> {
        self.swaps.fetch_add(1, Ordering::SeqCst);
        let decided = self.decide.lock().expect("unpoisoned").as_mut().map(|decide| decide(write));
        match decided.unwrap_or_else(|| self.next_fault()) {
            None => return self.acknowledged(&swap).await,
            Some(Fault::AfterLate) => {
                self.deliver().await;
                return self.acknowledged(&swap).await;
            }
            Some(Fault::Refused) => return Ok(Box::new(false)),
            Some(Fault::NeverArrives) => {}
            Some(Fault::LostReply) => drop(self.visible(&swap).await),
            Some(Fault::Late) => self.keep_back(swap),
        }
        Err(unavailable())
    }

    async fn swap_record(&self, swap: Call) -> Result<Reply, StoreError> {
        let fault = self.record_faults.lock().expect("unpoisoned").pop();
        match fault {
            None => return swap.run(&self.inner).await,
            Some(Fault::AfterLate) => {
                self.deliver_records().await;
                return swap.run(&self.inner).await;
            }
            Some(Fault::Refused) => return Ok(Box::new(false)),
            Some(Fault::NeverArrives) => {}
            Some(Fault::LostReply) => drop(swap.run(&self.inner).await?),
            Some(Fault::Late) => self.late_records.lock().expect("unpoisoned").push(swap),
        }
        Err(unavailable())
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("planned by the test".into())
}

fn corrupt(row: String, column: &'static str) -> StoreError {
    let (table, value) = ("memory".to_owned(), "x".to_owned());
    StoreError::Corrupt { table, row, column, value, reason: "planned by the test".to_owned() }
}

#[async_trait]
impl Intercept for FaultyStore {
    fn memory(&self) -> &MemoryStore {
        &self.inner
    }

    async fn answer(&self, call: Call) -> Result<Reply, StoreError> {
        if let Call::ListRows = call
            && let Some(go_on) = self.waits_for()
        {
            go_on.notified().await;
        }
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        let is_refused =
            matches!(call, Call::Prepare) && self.refuses_preparation.load(Ordering::SeqCst);
        if is_refused || self.unusable.load(Ordering::SeqCst) {
            return Err(StoreError::Unusable("planned by the test".to_owned()));
        }
        if self.down.load(Ordering::SeqCst) {
            self.unanswered.fetch_add(1, Ordering::SeqCst);
            return Err(unavailable());
        }
        match &call {
            Call::ReadRow(scope, ..) | Call::SwapRow(scope, ..) if self.is_record_damaged() => {
                return Err(corrupt(scope.namespace.clone(), "token"));
            }
            Call::ReadRow(scope, worker) if self.damaged(*worker).is_some() => {
                let column = self.damaged(*worker).expect("damaged");
                return Err(corrupt(scope.row_name(*worker), column));
            }
            Call::SwapRow(_, _, _, write) => {
                let write = write.clone();
                return self.swap(call, &write).await;
            }
            Call::SwapRecord(..) => return self.swap_record(call).await,
            Call::Reserve(_, code, _)
                if self.contended.lock().expect("unpoisoned").as_ref() == Some(code) =>
            {
                return Ok(Box::new(Reserved::OtherEpoch));
            }
            Call::Reserve(..) => {
                let fault = self.next_fault();
                if fault != Some(Fault::NeverArrives) {
                    let reserved = call.run(&self.inner).await?;
                    if fault.is_none() {
                        return Ok(reserved);
                    }
                }
                return Err(unavailable());
            }
            Call::FinishKeys(..) => {
                let fault = self.text_faults.lock().expect("unpoisoned").pop();
                match fault {
                    None | Some(Fault::AfterLate | Fault::Refused) => {
                        return call.run(&self.inner).await;
                    }
                    Some(Fault::NeverArrives) => {}
                    Some(Fault::LostReply) => drop(call.run(&self.inner).await?),
                    Some(Fault::Late) => self.keep_back(call),
                }
                return Err(unavailable());
            }
            Call::GiveBack(..) | Call::Undo(..) if self.next_fault().is_some() => {
                self.keep_back(call);
                return Err(unavailable());
            }
            Call::FreeRows(..) if self.wipes_after_rows.swap(false, Ordering::SeqCst) => {
                self.wipe(true);
            }
            _ => {}
        }
        let mut reply = call.run(&self.inner).await?;
        let wiped = self.wiped.load(Ordering::SeqCst);
        if let Some(survey) = reply.downcast_mut::<Survey>() {
            if let Some((clock, by_ms)) = self.steps.lock().expect("unpoisoned").pop() {
                clock.step(by_ms);
            }
            survey.record.take_if(|_| wiped);
        }
        if let Some(rows) = reply.downcast_mut::<Vec<Row>>() {
            rows.retain(|row| self.damaged(row.worker).is_none());
        }
        if let Some(row) = reply.downcast_mut::<Option<Row>>() {
            row.take_if(|_| wiped);
        }
        Ok(reply)
    }
}
