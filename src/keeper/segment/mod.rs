//! Segment mode: one task for each store that reserves blocks ahead, and the [`SegmentIssuer`].

mod code;
mod handle;
mod issuer;
mod raise;
mod refill;
mod settings;
mod shared;
mod task;

use std::{sync::Arc, time::Duration};

use rand::Rng;

pub use self::{
    handle::SegmentHandle,
    issuer::SegmentIssuer,
    raise::{RaiseError, raise_code},
    settings::SegmentSettings,
    shared::SegmentStatus,
    task::GivenBack,
};
use self::{shared::Shared, task::Task};
use super::{KeeperError, KeeperTask, Observer, random, running::Running};
use crate::store::Store;

/// The background task that reserves blocks for every segment namespace of a store.
///
/// Dropping it ends the task without giving anything back: what is in hand is still issued, and
/// then lost. Prefer [`SegmentKeeper::release`].
#[derive(Debug)]
pub struct SegmentKeeper(Running<Vec<KeeperError>, GivenBack>);

impl SegmentKeeper {
    /// Starts the task on the current tokio runtime. Store errors are retried for ever. Each
    /// namespace comes with the observer of what happens in it; the issuers are in the same order.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(
        namespaces: Vec<(SegmentSettings, Arc<dyn Observer>)>,
        store: Arc<dyn Store>,
    ) -> (Self, Vec<SegmentIssuer>) {
        Self::start_with(namespaces, store, random::of_the_system())
    }

    /// Like [`Self::start`], with the source of tokens and jitter passed in: for tests and simulations. Everything else must use the operating
    /// system's randomness, because tokens must never repeat.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start_with(
        namespaces: Vec<(SegmentSettings, Arc<dyn Observer>)>,
        store: Arc<dyn Store>,
        random: Box<dyn Rng + Send + Sync>,
    ) -> (Self, Vec<SegmentIssuer>) {
        let (shared, queue) = Shared::new(namespaces, store, random);
        let issuers = SegmentIssuer::all(&shared);
        let task = Task::new(shared, queue);
        (Self(Running::start(|stop, failed| task.run(stop, failed))), issuers)
    }

    /// Resolves once, when the keeper gave up for good, with what is wrong with each namespace, or
    /// when its task failed; pending otherwise.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and asked again.
    pub async fn failed(&mut self) -> Vec<KeeperError> {
        let failed = |reason| KeeperError::TaskFailed { task: KeeperTask::Segments, reason };
        self.0.failed().await.unwrap_or_else(|reason| vec![failed(reason)])
    }

    /// Seals every code and gives the unused numbers back, within the deadline. Afterwards no
    /// claim succeeds.
    pub async fn release(self, deadline: Duration) -> GivenBack {
        self.0.stop(deadline).await.unwrap_or_default()
    }
}
