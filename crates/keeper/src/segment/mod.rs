//! Segment mode: one task for each store that reserves blocks ahead, and the [`SegmentIssuer`].

mod code;
mod code_manager;
mod code_table;
mod code_view;
mod creations;
mod handle;
pub(crate) mod issuer;
mod look;
mod manage_error;
mod managed;
mod namespace;
mod plan;
mod raise;
mod refill;
mod settings;
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
    manage_error::{ManageError, RaiseError},
    settings::SegmentSettings,
    task::GivenBack,
};
use self::{
    code_table::CodeTable,
    namespace::{Namespace, SharedStore},
    task::Task,
};
use crate::ground::{
    error::KeeperError,
    observer::{KeeperTask, Observer},
    random::{Random, system_random},
    task_handle::TaskHandle,
};

/// Returns a namespace's layout record in this mode. It names the table, because in another one
/// numbers would begin anew.
fn record_of(store: &dyn Store) -> String {
    format!("mode=segment table={}", store.segment_table())
}

/// The background task that reserves blocks for every segment namespace of a store.
///
/// Dropping it ends the task without giving anything back: what is in hand is still issued, and
/// then lost. Prefer [`SegmentKeeper::release`].
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

    /// Starts the task like [`Self::start`], with the source of tokens and jitter passed in: for
    /// tests and simulations. All others must use the operating system's randomness, because
    /// tokens must never repeat.
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

    /// Resolves once, when the keeper failed permanently, with one error for each namespace at
    /// fault, or when its task failed; pending otherwise.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn failed(&mut self) -> Vec<KeeperError> {
        let failed = |reason| KeeperError::TaskFailed { task: KeeperTask::Segments, reason };
        self.0.failed().await.unwrap_or_else(|reason| vec![failed(reason)])
    }

    /// Seals every code and gives unused numbers back, within the deadline. Afterwards no claim
    /// succeeds.
    pub async fn release(self, deadline: Duration) -> GivenBack {
        self.0.stop(deadline).await.unwrap_or_default()
    }
}
