//! Saves the lease of one namespace in the state file, and raises the grant's limit to the local
//! mark that the file has.
//!
//! A process issues an ID only below a local mark that is durable: each save waits for the disk
//! before it raises the limit. [`StateFileWriter::run`] raises the mark ahead of claims, beside the
//! steps of the task.
//!
//! It talks to no store, and it neither acquires nor ends a lease. The caller has three duties. It
//! saves only what the store acknowledged. It calls [`StateFileWriter::before_write`] before a
//! write that ends a saved lease. And it gives the lease up after the first [`StateFileFailed`].
//! Tests: `state_files.rs` in `src/tests`.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc, Mutex as StdMutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use raindrop_core::{
    instant::millis,
    keeper_api::Grant,
    lease::{
        Epoch, HighWaterMarks, KnownRow, LimitRequest, ResumeRefusal, SavedLease, next_local_mark,
    },
};
use tokio::{
    sync::{Mutex, Notify},
    time::{Instant, sleep, timeout},
};

use super::{planted, shared::KeeperState};
use crate::state_file::{LONGEST_WRITE, Refused, StateFile, format::Entry};

/// The interval between checks of the local mark, unless claims ask for one.
const EVERY: Duration = Duration::from_millis(500);
/// The shortest time between two checks that claims ask for.
const BETWEEN: Duration = Duration::from_millis(5);

/// The state file failed, for this reason. The process saves nothing more in it until a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateFileFailed(pub(crate) Arc<str>);

/// Saves the lease of one namespace in the state file.
#[derive(Debug)]
pub(crate) struct StateFileWriter {
    file: StateFile,
    state: Arc<KeeperState>,
    /// The canonical text of the layout, and the reserved bits by which rows are keyed.
    layout: String,
    reserved_key: String,
    /// Locked during a write of the file, so that changes follow each other.
    saved: Mutex<Saved>,
    has_failed: AtomicBool,
    /// The failure, until it is reported.
    failure: StdMutex<Option<StateFileFailed>>,
    /// Notified by claims that the limit refused, or that come near it.
    pub(crate) near_limit: Arc<Notify>,
    /// Notified when the file fails, to wake the task.
    pub(crate) wake_up: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Saved {
    /// The lease that the file has, and the grant that it bounds.
    present: Option<(SavedLease, Arc<Grant>)>,
    /// The leases that the file may have after a crash, since writes of the file are under way.
    /// Each has the number of the change that saves it.
    possible: Vec<(u64, SavedLease)>,
    /// The duration of the last write.
    took: Duration,
}

impl Saved {
    fn may_have_lease_ended_by(&self, worker: u64, marks: &HighWaterMarks) -> bool {
        self.possible.iter().any(|(_, lease)| lease.is_ended_by(worker, marks))
    }
}

impl StateFileWriter {
    pub(crate) fn new(
        file: StateFile,
        state: Arc<KeeperState>,
        reserved_key: String,
        wake_up: Arc<Notify>,
    ) -> Self {
        let layout = state.layout().canonical();
        Self {
            file,
            state,
            layout,
            reserved_key,
            saved: Mutex::default(),
            has_failed: AtomicBool::new(false),
            failure: StdMutex::default(),
            near_limit: Arc::default(),
            wake_up,
        }
    }

    /// Returns whether the file can no longer be used.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Returns the failure, once.
    pub(crate) fn take_failure(&self) -> Option<StateFileFailed> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the lease that the file had when the process started, if it can be resumed, or
    /// `Ok(None)` if the file had none. A refused lease is removed from the file, so that no later
    /// start finds it.
    pub(crate) async fn resumable(
        &self,
        check: impl FnOnce(&Entry) -> Result<(), ResumeRefusal>,
    ) -> Result<Option<SavedLease>, String> {
        let found = self.file.found(&self.state.namespace).map_err(|Refused(reason)| reason);
        let found = found.map(|entry| entry.filter(|it| it.reserved_key == self.reserved_key));
        let checked = found.and_then(|found| match found {
            Some(entry) => match check(&entry) {
                Ok(()) => Ok(Some(entry.lease)),
                Err(refusal) => Err(refusal.to_string()),
            },
            None => Ok(None),
        });
        let mut saved = self.saved.lock().await;
        match &checked {
            Ok(lease) => saved.possible.extend(lease.clone().map(|lease| (0, lease))),
            // A failure of this write is reported by the next step.
            Err(_) => drop(self.write(&mut saved, None).await),
        }
        checked
    }

    /// Saves a lease as the store acknowledged it last, and raises the limit of its grant. The
    /// lease replaces the one in the file, whose grant ends at its present limit. `ordinal` is that
    /// of the known row's epoch.
    pub(crate) async fn save<T>(
        &self,
        known_row: &KnownRow<T>,
        ordinal: u64,
        grant: &Arc<Grant>,
    ) -> Result<(), StateFileFailed> {
        debug_assert!(known_row.visible().is_none(), "what is saved was acknowledged");
        let mut saved = self.saved.lock().await;
        let lane = usize::try_from(grant.lane()).expect("a lane is below 8");
        let lease = SavedLease {
            worker: known_row.worker(),
            lane,
            token: known_row.token(),
            epoch: Epoch { token: known_row.epoch(), ordinal },
            marks: known_row.marks().clone(),
            local_mark: match &saved.present {
                Some((lease, of)) if Arc::ptr_eq(of, grant) => lease.local_mark,
                _ => grant.limit(),
            },
        };
        let local_mark =
            self.next_local_mark(&lease, grant, saved.took).unwrap_or(lease.local_mark);
        self.save_present(&mut saved, SavedLease { local_mark, ..lease }, grant).await
    }

    /// Raises the local mark, if it is less far ahead than it should be.
    pub(crate) async fn raise_local_mark(&self) -> Result<(), StateFileFailed> {
        let mut saved = self.saved.lock().await;
        let Some((lease, grant)) = saved.present.clone() else { return Ok(()) };
        if self.has_failed() || grant.is_sealed() {
            return Ok(());
        }
        let Some(local_mark) = self.next_local_mark(&lease, &grant, saved.took) else {
            return Ok(());
        };
        planted::before_saving(&grant, local_mark, || self.state.present_position());
        self.save_present(&mut saved, SavedLease { local_mark, ..lease }, &grant).await?;
        self.state.announce();
        Ok(())
    }

    /// Saves the position at which the sealed grant ended as the local mark, so that a process that
    /// resumes the lease skips no position. Returns whether the file has a lease to resume.
    pub(crate) async fn save_sealed(&self) -> Result<bool, StateFileFailed> {
        let mut saved = self.saved.lock().await;
        let Some((lease, grant)) = saved.present.clone() else { return Ok(false) };
        let local_mark = grant.seal();
        if local_mark >= lease.limit() {
            return Ok(false);
        }
        self.save_present(&mut saved, SavedLease { local_mark, ..lease }, &grant).await?;
        Ok(true)
    }

    /// Removes the lease that a write of a row would end, before that write is sent.
    pub(crate) async fn before_write(
        &self,
        worker: u64,
        marks: &HighWaterMarks,
    ) -> Result<(), StateFileFailed> {
        let mut saved = self.saved.lock().await;
        if !saved.may_have_lease_ended_by(worker, marks) {
            return Ok(());
        }
        saved.present = None;
        self.write(&mut saved, None).await
    }

    /// Removes the lease from the file.
    pub(crate) async fn forget(&self) -> Result<(), StateFileFailed> {
        let mut saved = self.saved.lock().await;
        if saved.possible.is_empty() {
            return Ok(());
        }
        saved.present = None;
        self.write(&mut saved, None).await
    }

    /// Returns whether a crash may leave a lease in the file that a write of a row would end. For
    /// assertions only: the answer is `false` during a write of the file.
    pub(crate) fn has_lease_ended_by(&self, worker: u64, marks: &HighWaterMarks) -> bool {
        let saved = self.saved.try_lock();
        saved.is_ok_and(|saved| saved.may_have_lease_ended_by(worker, marks))
    }

    /// Raises the local mark again and again. Never resolves.
    pub(crate) async fn run(&self) -> Infallible {
        loop {
            // The task learns of a failure by `take_failure`, so nothing is left to do here.
            if self.raise_local_mark().await.is_err() || self.has_failed() {
                return pending().await;
            }
            sleep(BETWEEN).await;
            tokio::select! {
                () = sleep(EVERY) => {}
                () = self.near_limit.notified() => {}
            }
        }
    }

    /// Returns the next local mark of the lease; `None` if the present one is far enough ahead.
    fn next_local_mark(&self, lease: &SavedLease, grant: &Grant, took: Duration) -> Option<u64> {
        let layout = self.state.layout();
        // A claim beyond the limit of the lease needs a renewal by the task, not a higher local
        // mark.
        let is_short = lease.local_mark < lease.limit();
        let request = LimitRequest {
            old_limit: lease.local_mark,
            start: grant.start(),
            highest_next: grant.highest_next(),
            refused: if is_short { grant.take_refused() } else { 0 },
            now_ms: self.state.clock.now_ms(),
            // A write may have to wait for the one before it.
            reach_ms: millis(took * 2),
        };
        next_local_mark(layout, &request, lease.limit())
    }

    /// Writes the lease to the file, and then raises the grant's limit to the lease's local mark.
    async fn save_present(
        &self,
        saved: &mut Saved,
        lease: SavedLease,
        grant: &Arc<Grant>,
    ) -> Result<(), StateFileFailed> {
        let local_mark = lease.local_mark;
        self.write(saved, Some(&lease)).await?;
        grant.raise_local_limit(local_mark, self.state.present_position());
        saved.present = Some((lease, Arc::clone(grant)));
        Ok(())
    }

    /// Writes the file's entry of this namespace, and returns once it is durable.
    async fn write(
        &self,
        saved: &mut Saved,
        lease: Option<&SavedLease>,
    ) -> Result<(), StateFileFailed> {
        if self.has_failed() {
            return Err(StateFileFailed("it failed before".into()));
        }
        let entry = lease.map(|lease| Entry {
            layout: self.layout.clone(),
            reserved_key: self.reserved_key.clone(),
            lease: lease.clone(),
        });
        let began = Instant::now();
        let change = self.file.set(&self.state.namespace, entry);
        saved.possible.extend(lease.map(|lease| (change, lease.clone())));
        let durable = timeout(LONGEST_WRITE, self.file.durable(change)).await;
        let durable =
            durable.unwrap_or_else(|_| Err(format!("no write within {LONGEST_WRITE:?}").into()));
        match durable {
            Ok(()) => {
                saved.took = began.elapsed();
                saved.possible.retain(|(of, _)| *of >= change);
                Ok(())
            }
            Err(reason) => {
                let failure = StateFileFailed(reason);
                self.has_failed.store(true, Ordering::Release);
                let mut untold = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                *untold = Some(failure.clone());
                self.wake_up.notify_one();
                Err(failure)
            }
        }
    }
}
