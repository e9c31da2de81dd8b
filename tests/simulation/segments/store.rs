//! A store whose reservations and give-backs are slow, lost, late, or never answered.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use raindrop::{
    core::{
        clock::ManualClock,
        lease::{Row, RowWrite, Token},
    },
    store::{
        LayoutRecord, ListedRow, ListedSegment, MemoryStore, NewRows, NewSegment, Reservation,
        Reserved, Scope, SegmentStore, Store, StoreError, Survey,
    },
};
use tokio::time::sleep;

use super::{activity::Activity, model::Fate};
use crate::planted::Planting;

/// One store for every node.
#[derive(Debug)]
pub(super) struct Flaky {
    memory: MemoryStore,
    planting: Planting,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fates: VecDeque<Fate>,
    late: Vec<Write>,
    down: bool,
    latency_ms: u64,
    /// The token of each code, for a store that does not compare it.
    tokens: HashMap<String, Token>,
    activity: Activity,
}

#[derive(Clone, Debug)]
enum Write {
    Reserve { namespace: String, code: String, reservation: Reservation },
    GiveBack { namespace: String, code: String, reserved: Token, from: u64, token: Token },
}

impl Flaky {
    pub(super) fn new(planting: Planting) -> Arc<Self> {
        let memory = MemoryStore::new(Arc::new(ManualClock::new(0)));
        Arc::new(Self { memory, planting, state: Mutex::default() })
    }

    /// What becomes of the next writes, in this order.
    pub(super) fn expect(&self, fate: Fate) {
        self.state().fates.push_back(fate);
    }

    pub(super) fn set_down(&self, down: bool) {
        self.state().down = down;
    }

    pub(super) fn set_latency(&self, ms: u64) {
        self.state().latency_ms = ms;
    }

    pub(super) fn heal(&self) {
        let mut state = self.state();
        state.fates.clear();
        state.down = false;
    }

    pub(super) fn activity(&self) -> Activity {
        self.state().activity
    }

    /// Applies the writes that were kept back.
    pub(super) async fn deliver(&self) {
        let late = std::mem::take(&mut self.state().late);
        for write in late {
            let is_reservation = matches!(write, Write::Reserve { .. });
            let applied = self.apply(&write).await;
            let activity = &mut self.state().activity;
            match (is_reservation, applied) {
                (true, _) => activity.late_reserved += 1,
                (false, Applied::GivenBack(true)) => activity.late_applied += 1,
                (false, _) => activity.late_refused += 1,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    async fn apply(&self, write: &Write) -> Applied {
        match write {
            Write::Reserve { namespace, code, reservation } => {
                let reserved = self.memory.reserve(namespace, code, reservation).await;
                let reserved = reserved.expect("memory does not fail");
                if let Reserved::From(_) = reserved {
                    let mut state = self.state();
                    state.tokens.insert(code.clone(), reservation.token);
                    state.activity.reserved += 1;
                }
                Applied::Reserved(reserved)
            }
            Write::GiveBack { namespace, code, reserved, from, token } => {
                let present = self.state().tokens.get(code).copied();
                let compared = match self.planting {
                    Planting::TokenNotCompared => present.unwrap_or(*reserved),
                    _ => *reserved,
                };
                let given = self.memory.give_back(namespace, code, compared, *from, *token).await;
                let given = given.expect("memory does not fail");
                if given {
                    self.state().tokens.insert(code.clone(), *token);
                }
                Applied::GivenBack(given)
            }
        }
    }

    /// A write on its way, and its answer on its way back.
    async fn send(&self, write: Write) -> Result<Applied, StoreError> {
        self.travel().await?;
        let fate = self.state().fates.pop_front().unwrap_or(Fate::Answered);
        let is_reservation = matches!(write, Write::Reserve { .. });
        match fate {
            Fate::Answered => {
                let applied = self.apply(&write).await;
                self.travel().await?;
                Ok(applied)
            }
            Fate::LostReply => {
                self.apply(&write).await;
                self.state().activity.lost_replies += u64::from(is_reservation);
                Err(away())
            }
            Fate::NeverArrives => {
                self.state().activity.never_arrived += u64::from(is_reservation);
                Err(away())
            }
            Fate::Late => {
                self.state().late.push(write);
                Err(away())
            }
        }
    }

    async fn travel(&self) -> Result<(), StoreError> {
        let latency_ms = self.state().latency_ms;
        sleep(Duration::from_millis(latency_ms)).await;
        if self.state().down { Err(away()) } else { Ok(()) }
    }
}

enum Applied {
    Reserved(Reserved),
    GivenBack(bool),
}

fn away() -> StoreError {
    StoreError::Unavailable("simulated".into())
}

#[async_trait]
impl SegmentStore for Flaky {
    fn segment_table(&self) -> &str {
        self.memory.segment_table()
    }

    async fn prepare_segments(&self) -> Result<(), StoreError> {
        self.travel().await
    }

    async fn create_segments(
        &self,
        namespace: &str,
        codes: &[NewSegment],
    ) -> Result<(), StoreError> {
        self.travel().await?;
        self.memory.create_segments(namespace, codes).await
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved, StoreError> {
        let write = Write::Reserve {
            namespace: namespace.to_owned(),
            code: code.to_owned(),
            reservation: *reservation,
        };
        match self.send(write).await? {
            Applied::Reserved(reserved) => Ok(reserved),
            Applied::GivenBack(_) => unreachable!("it was a reservation"),
        }
    }

    async fn give_back(
        &self,
        namespace: &str,
        code: &str,
        reserved: Token,
        from: u64,
        token: Token,
    ) -> Result<bool, StoreError> {
        let (namespace, code) = (namespace.to_owned(), code.to_owned());
        match self.send(Write::GiveBack { namespace, code, reserved, from, token }).await? {
            Applied::GivenBack(given) => {
                let activity = &mut self.state().activity;
                activity.given_back += u64::from(given);
                activity.refused += u64::from(!given);
                Ok(given)
            }
            Applied::Reserved(_) => unreachable!("it was a give-back"),
        }
    }

    async fn segments(&self) -> Result<Vec<ListedSegment>, StoreError> {
        self.memory.segments().await
    }
}

/// Segment mode has a record and no rows.
#[async_trait]
impl Store for Flaky {
    fn clock_is_local(&self) -> bool {
        true
    }

    async fn prepare(&self) -> Result<Vec<String>, StoreError> {
        self.travel().await?;
        self.memory.prepare().await
    }

    async fn create_record(
        &self,
        namespace: &str,
        record: &LayoutRecord,
    ) -> Result<LayoutRecord, StoreError> {
        self.travel().await?;
        self.memory.create_record(namespace, record).await
    }

    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>, StoreError> {
        self.memory.read_record(namespace).await
    }

    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool, StoreError> {
        self.memory.swap_record(namespace, expected, record).await
    }

    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool, StoreError> {
        self.memory.create_rows(scope, new).await
    }

    async fn survey(&self, scope: &Scope) -> Result<Survey, StoreError> {
        self.memory.survey(scope).await
    }

    async fn free_rows(&self, scope: &Scope, limit: u32) -> Result<Vec<Row>, StoreError> {
        self.memory.free_rows(scope, limit).await
    }

    async fn free_row_of(&self, scope: &Scope, holder: &str) -> Result<Option<Row>, StoreError> {
        self.memory.free_row_of(scope, holder).await
    }

    async fn row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>, StoreError> {
        self.memory.row(scope, worker).await
    }

    async fn swap(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool, StoreError> {
        self.memory.swap(scope, worker, expected, write).await
    }

    async fn list(&self) -> Result<Vec<ListedRow>, StoreError> {
        self.memory.list().await
    }

    async fn close(&self) {}
}
