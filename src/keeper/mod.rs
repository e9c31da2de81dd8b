//! The background task that acquires, renews, moves and releases leases, and the [`Issuer`].

mod error;
mod issuer;
mod observer;
mod settings;
mod status;

use std::{sync::Arc, time::Duration};

pub use self::{
    error::IssueError,
    issuer::Issuer,
    observer::{
        Exhaustion, LeaseOperation, LeaseOutcome, NoObserver, Observer, RollbackAction,
        StoreOperation,
    },
    settings::{KeeperSettings, LeaseTimes},
    status::{LeaseView, Status, Trouble},
};
use crate::{
    core::clock::Clock,
    store::{Store, StoreError},
};

/// Why a keeper gave up for good.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeeperError {
    /// The namespace was recorded with another layout.
    #[error("namespace {namespace}: this node's layout is `{ours}`, the store's is `{recorded}`")]
    LayoutConflict {
        /// The namespace.
        namespace: String,
        /// This node's layout in words.
        ours: String,
        /// The recorded layout in words.
        recorded: String,
    },
    /// The store cannot be used as it is.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The row is free and its mark is true.
    Done,
    /// There was no row to give back.
    NothingHeld,
    /// The deadline passed; the row comes free after its ttl.
    GaveUp,
}

/// The background task of one namespace.
#[derive(Debug)]
pub struct Keeper {}

impl Keeper {
    /// Starts the task on the current tokio runtime. Store errors are retried for ever.
    pub fn start(
        _settings: KeeperSettings,
        _store: Arc<dyn Store>,
        _clock: Arc<dyn Clock>,
        _observer: Arc<dyn Observer>,
    ) -> (Self, Issuer) {
        todo!()
    }

    /// Resolves when the keeper gave up for good.
    pub async fn failed(&mut self) -> KeeperError {
        todo!()
    }

    /// Seals the grant, lowers the mark and frees the row, within the deadline.
    pub async fn release(self, _deadline: Duration) -> Released {
        todo!()
    }
}
