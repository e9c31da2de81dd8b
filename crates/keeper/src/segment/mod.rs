//! Segment mode: the [`SegmentIssuer`] issues plain numbers from blocks that one task for each
//! store reserves ahead.

mod block_check;
mod code;
mod code_manager;
mod code_table;
mod code_view;
mod creations;
mod handle;
pub(crate) mod issuer;
mod keyed;
mod manage_error;
mod managed;
mod namespace;
mod plan;
mod planted;
mod raise;
mod refill;
mod settings;
mod strict;
mod task;

use std::{sync::Arc, time::Duration};

use raindrop_store::Store;
use rand::Rng;
use tokio::sync::mpsc;

pub use self::{
    code_manager::CodeManager,
    code_table::SegmentStatus,
    code_view::{CodeKind, CodeView},
    handle::SegmentHandle,
    issuer::SegmentIssuer,
    keyed::{IdempotencyKey, InvalidIdempotencyKey, KeyedNumber},
    manage_error::{ManageError, RaiseError},
    settings::SegmentSettings,
    task::GivenBack,
};
use self::{
    code_table::CodeTable,
    namespace::{Namespace, SharedStore},
    task::Task,
};
use crate::support::{
    error::KeeperError,
    observer::{KeeperTask, Observer},
    random::{Random, system_random},
    tasks::TaskHandle,
};

/// Returns the text of a namespace's layout record in this mode. It names the table, because in
/// another table numbers would start from the beginning.
fn record_of(store: &dyn Store) -> String {
    format!("mode=segment table={}", store.segment_table())
}

/// The background task that reserves blocks for every segment namespace of a store.
///
/// If it is dropped, the task ends and gives no numbers back: reserved numbers are still issued,
/// and the rest is lost. Prefer [`SegmentKeeper::release`].
#[derive(Debug)]
pub struct SegmentKeeper(TaskHandle<Vec<KeeperError>, GivenBack>);

impl SegmentKeeper {
    /// Starts the task on the current tokio runtime. It retries store errors forever. Each
    /// namespace comes with its observer; the issuers are in the same order.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(
        namespaces: Vec<(SegmentSettings, Arc<dyn Observer>)>,
        store: Arc<dyn Store>,
    ) -> (Self, Vec<SegmentIssuer>) {
        Self::start_with(namespaces, store, system_random())
    }

    /// Starts the task like [`Self::start`], with a given source of tokens and jitter, for tests
    /// and simulations. Any other caller must use the operating system's randomness, because tokens
    /// must never repeat.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start_with(
        namespaces: Vec<(SegmentSettings, Arc<dyn Observer>)>,
        store: Arc<dyn Store>,
        random: Box<dyn Rng + Send + Sync>,
    ) -> (Self, Vec<SegmentIssuer>) {
        let (queue, queued) = mpsc::unbounded_channel();
        let shared = Arc::new(SharedStore::new(store, Random(random)));
        let code_table = |(settings, observer)| {
            let namespace = Namespace::new(settings, observer, Arc::clone(&shared));
            Arc::new(CodeTable::new(namespace, queue.clone()))
        };
        let tables: Vec<_> = namespaces.into_iter().map(code_table).collect();
        let issuers = tables.iter().cloned().map(SegmentIssuer).collect();
        let task = Task::new(tables, shared, queued);
        (Self(TaskHandle::start(|stop, failed| task.run(stop, failed))), issuers)
    }

    /// Resolves once, when the keeper failed permanently, with an error for each namespace at
    /// fault, or when its task failed. Pending otherwise.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn failed(&mut self) -> Vec<KeeperError> {
        let failed = |reason| KeeperError::TaskFailed { task: KeeperTask::Segments, reason };
        self.0.failed().await.unwrap_or_else(|reason| vec![failed(reason)])
    }

    /// Seals every code and gives unused numbers back, within the deadline. No claim succeeds
    /// afterwards.
    pub async fn release(self, deadline: Duration) -> GivenBack {
        self.0.stop(deadline).await.unwrap_or_default()
    }
}
