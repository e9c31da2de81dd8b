//! The keepers of every namespace, over one store.

use std::{sync::Arc, time::Duration};

use futures_util::future::{pending, select_all};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    config::Config,
    core::clock::Clock,
    keeper::{
        GivenBack, Issuer, Keeper, KeeperError, KeeperSettings, NamespaceIssuer, Released,
        SegmentKeeper, SegmentSettings, StateFile,
    },
    server::metrics::Metrics,
    store::Store,
};

/// The keepers of every namespace, over one store.
#[derive(Debug)]
pub(super) struct Keepers(Vec<Running>);

/// A keeper, and the issuers that issue from its leases or blocks.
#[derive(Debug)]
struct Running {
    keeper: AnyKeeper,
    issuers: Vec<NamespaceIssuer>,
}

#[derive(Debug)]
enum AnyKeeper {
    Lease(Keeper),
    /// A single keeper for all segment namespaces.
    Segments(SegmentKeeper),
}

impl Keepers {
    pub(super) fn start(
        config: &Config,
        store: &Arc<dyn Store>,
        clock: &Arc<dyn Clock>,
        metrics: &Metrics,
        state_file: Option<&StateFile>,
    ) -> Self {
        let start = |settings: KeeperSettings| {
            let settings = KeeperSettings { state_file: state_file.cloned(), ..settings };
            let observer = metrics.observer(&settings.namespace);
            let (keeper, issuer) =
                Keeper::start(settings, Arc::clone(store), Arc::clone(clock), observer);
            Running { keeper: AnyKeeper::Lease(keeper), issuers: vec![issuer.into()] }
        };
        let mut all: Vec<Running> = config.keepers().cloned().map(start).collect();
        let observed = |settings: &SegmentSettings| {
            (settings.clone(), metrics.segment_observer(&settings.namespace))
        };
        let segments: Vec<_> = config.segments().map(observed).collect();
        if !segments.is_empty() {
            let (keeper, issuers) = SegmentKeeper::start(segments, Arc::clone(store));
            let issuers = issuers.into_iter().map(Into::into).collect();
            all.push(Running { keeper: AnyKeeper::Segments(keeper), issuers });
        }
        Self(all)
    }

    pub(super) fn issuers(&self) -> Vec<NamespaceIssuer> {
        self.0.iter().flat_map(|running| running.issuers.clone()).collect()
    }

    /// Returns the issuer of a namespace that leases worker ids.
    pub(super) fn lease_issuer(&self, namespace: &str) -> Option<&Issuer> {
        let mut issuers = self.0.iter().flat_map(|running| &running.issuers);
        issuers.find_map(|issuer| match issuer {
            NamespaceIssuer::Snowflake(issuer) if issuer.namespace() == namespace => Some(issuer),
            _ => None,
        })
    }

    /// Resolves when a keeper gave up for good. Then waits until each of the others gives up, too,
    /// or has its lease or block, or `patience` is over. Returns all errors, so that they can be
    /// reported together.
    pub(super) async fn failed(&mut self, patience: Duration) -> Vec<KeeperError> {
        if self.0.is_empty() {
            return pending().await;
        }
        let failing = self.0.iter_mut().map(|running| Box::pin(running.failed()));
        let (mut errors, first, _) = select_all(failing).await;
        let deadline = Instant::now() + patience;
        for (index, running) in self.0.iter_mut().enumerate() {
            if index == first {
                continue;
            }
            let issuer = running.issuers[0].clone();
            tokio::select! {
                biased;
                more = running.failed() => errors.extend(more),
                () = issuer.ready() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
        errors
    }

    /// Releases all leases and unused numbers concurrently, within the deadline.
    pub(super) async fn release(self, deadline: Duration) {
        let mut releases = JoinSet::new();
        for running in self.0 {
            releases.spawn(running.release(deadline));
        }
        // A release that panicked has been logged.
        while releases.join_next().await.is_some() {}
    }
}

impl Running {
    async fn failed(&mut self) -> Vec<KeeperError> {
        match &mut self.keeper {
            AnyKeeper::Lease(keeper) => vec![keeper.failed().await],
            AnyKeeper::Segments(keeper) => keeper.failed().await,
        }
    }

    /// Releases the lease or the unused numbers, and logs the outcome.
    async fn release(self, deadline: Duration) {
        let namespace = self.issuers[0].namespace();
        match self.keeper {
            AnyKeeper::Lease(keeper) => match keeper.release(deadline).await {
                Released::Done => tracing::info!(namespace, "stopped, worker id released"),
                Released::Kept => tracing::warn!(
                    namespace,
                    "stopped while the store was away; the state file keeps the lease for the next \
                     start"
                ),
                Released::NothingHeld => tracing::info!(namespace, "stopped without a worker id"),
                Released::GaveUp => tracing::warn!(
                    namespace,
                    "stopped, worker id not released; it is free after its ttl"
                ),
            },
            AnyKeeper::Segments(keeper) => {
                let GivenBack { returned, lost } = keeper.release(deadline).await;
                tracing::info!(returned, lost, "stopped, unused segment numbers returned");
            }
        }
    }
}
