//! A store whose reservations and returns are slow, lost, late, or never answered.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use raindrop_core::{clock::ManualClock, lease::Token};
use raindrop_store::{
    Call, Intercept, KeyState, MemoryStore, Reply, Reserved, SegmentStore, Snapshot, Store,
    StoreError,
};
use tokio::time::sleep;

use super::{
    activity::Activity,
    model::{CODES, Fate},
};
use crate::planted::Planting;

/// One store for every node.
#[derive(Debug)]
pub(super) struct Flaky {
    memory: MemoryStore,
    clock: Arc<ManualClock>,
    planting: Planting,
    /// Whether a fail-over keeps all writes.
    keeps_all: bool,
    /// Whether claims create the codes, so that a fail-over may lose their rows.
    creates: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fates: VecDeque<Fate>,
    late: Vec<Call>,
    down: bool,
    latency_ms: u64,
    /// The token of each code, for a store that does not compare it.
    tokens: HashMap<String, Token>,
    /// The content of the replica.
    replica: Option<Snapshot>,
    /// The present server, and how many there were beside the first one.
    server: u32,
    servers: u32,
    activity: Activity,
}

impl State {
    fn identity(&self) -> String {
        match self.server {
            0 => "memory".to_owned(),
            number => format!("server {number}"),
        }
    }
}

impl Flaky {
    pub(super) fn new(planting: Planting, keeps_all: bool, creates: bool) -> Arc<Self> {
        let clock = Arc::new(ManualClock::new(0));
        let memory = MemoryStore::new(clock.clone());
        Arc::new(Self { memory, clock, planting, keeps_all, creates, state: Mutex::default() })
    }

    /// Lets the store's clock run on.
    pub(super) fn pass(&self, time: Duration) {
        self.clock.step(i64::try_from(time.as_millis()).expect("short"));
    }

    /// Sets the fate of the next write without one.
    pub(super) fn expect(&self, fate: Fate) {
        self.state().fates.push_back(fate);
    }

    pub(super) fn set_down(&self, down: bool) {
        self.state().down = down;
    }

    pub(super) fn set_latency(&self, ms: u64) {
        self.state().latency_ms = ms;
    }

    /// Gives the replica the state of the store. Does nothing before the configured codes exist and a
    /// node has checked the server, because the premises allow no fail-over then.
    pub(super) async fn replicate(&self) {
        let record = self.memory.read_record("numbers").await.expect("memory does not fail");
        let codes = self.memory.list_segments().await.expect("memory does not fail");
        let mut state = self.state();
        let is_known = record.is_some_and(|record| record.history.identity == state.identity());
        if is_known && (self.creates || codes.len() == CODES.len()) {
            state.replica = Some(self.memory.snapshot());
        }
    }

    /// Lets the replica take the place of the store, as another server or as the first one.
    pub(super) fn fail_over(&self, is_back: bool) {
        let mut state = self.state();
        // A server that is its own successor and has lost writes looks like no fail-over.
        if is_back && state.server == 0 {
            return;
        }
        let Some(replica) = state.replica.take() else { return };
        let held = if self.keeps_all { self.memory.snapshot() } else { replica };
        state.servers += 1;
        state.server = if is_back { 0 } else { state.servers };
        state.activity.fail_overs += 1;
        self.memory.fail_over(&state.identity(), held);
    }

    pub(super) fn heal(&self) {
        let mut state = self.state();
        state.fates.clear();
        state.down = false;
    }

    pub(super) fn activity(&self) -> Activity {
        self.state().activity
    }

    /// Applies the held-back writes.
    pub(super) async fn deliver(&self) {
        let late = std::mem::take(&mut self.state().late);
        for write in late {
            let applied = self.apply(&write).await;
            let activity = &mut self.state().activity;
            match applied.downcast_ref::<bool>() {
                None if applied.is::<Vec<KeyState>>() => activity.late_texts += 1,
                None => activity.late_reserved += 1,
                Some(true) => activity.late_applied += 1,
                Some(false) => activity.late_refused += 1,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    async fn apply(&self, write: &Call) -> Reply {
        let mut write = write.clone();
        if let Call::GiveBack(_, code, unused) = &mut write
            && matches!(self.planting, Planting::TokenNotCompared)
        {
            unused.reserved = self.state().tokens.get(code).copied().unwrap_or(unused.reserved);
        }
        if let Call::Undo(_, code, undo) = &mut write
            && matches!(self.planting, Planting::UndoTokenNotCompared)
        {
            undo.reserved = self.state().tokens.get(code).copied().unwrap_or(undo.reserved);
        }
        let reply = write.run(&self.memory).await.expect("memory does not fail");
        let mut state = self.state();
        match write {
            Call::Reserve(_, code, reservation)
                if let Some(Reserved::From(first)) = reply.downcast_ref() =>
            {
                let is_created = reservation.or_begin_at == Some(*first);
                let is_above = is_created && reservation.by > reservation.step;
                state.activity.created += u64::from(is_created);
                state.activity.created_above += u64::from(is_above);
                state.tokens.insert(code, reservation.token);
                state.activity.reserved += 1;
                state.activity.skipped += u64::from(reservation.by > reservation.step);
            }
            Call::GiveBack(_, code, unused) if matches!(reply.downcast_ref(), Some(true)) => {
                state.tokens.insert(code, unused.token);
            }
            Call::Undo(_, code, undo) if matches!(reply.downcast_ref(), Some(true)) => {
                state.tokens.insert(code, undo.token);
                state.activity.undone += 1;
            }
            _ => {}
        }
        drop(state);
        reply
    }

    /// Sends a write, and brings its answer back.
    async fn send(&self, write: Call) -> Result<Reply, StoreError> {
        self.travel().await?;
        let fate = self.state().fates.pop_front().unwrap_or(Fate::Answered);
        let is_reservation = matches!(write, Call::Reserve(..));
        match fate {
            Fate::Answered => {
                let applied = self.apply(&write).await;
                self.travel().await?;
                if let Some(given) = applied.downcast_ref::<bool>() {
                    let activity = &mut self.state().activity;
                    activity.given_back += u64::from(*given);
                    activity.refused += u64::from(!given);
                }
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

fn away() -> StoreError {
    StoreError::Unavailable("simulated".into())
}

/// Segment mode has a record and no rows.
#[async_trait]
impl Intercept for Flaky {
    fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    async fn answer(&self, call: Call) -> Result<Reply, StoreError> {
        match call {
            Call::Reserve(..)
            | Call::GiveBack(..)
            | Call::Undo(..)
            | Call::ClaimKeys(..)
            | Call::FinishKeys(..) => {
                return self.send(call).await;
            }
            Call::Prepare
            | Call::PrepareSegments
            | Call::CreateRecord(..)
            | Call::SwapRecord(..)
            | Call::Survey(..)
            | Call::CreateSegments(..) => self.travel().await?,
            _ => {}
        }
        call.run(&self.memory).await
    }
}
