//! The keepers of every namespace, over one store.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use tokio::{task::JoinSet, time::Instant};

use super::{config::Config, metrics::Metrics};
use crate::{
    core::clock::Clock,
    keeper::{Issuer, Keeper, KeeperError, KeeperSettings, Released},
    store::Store,
};

/// The keepers of every namespace, over one store.
#[derive(Debug)]
pub(super) struct Keepers(Vec<(Keeper, Issuer)>);

impl Keepers {
    pub(super) fn start(
        config: &Config,
        store: &Arc<dyn Store>,
        clock: &Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> Self {
        let start = |settings: KeeperSettings| {
            let observer = metrics.observer(&settings.namespace);
            Keeper::start(settings, Arc::clone(store), Arc::clone(clock), observer)
        };
        Self(config.keepers().cloned().map(start).collect())
    }

    pub(super) fn issuers(&self) -> impl Iterator<Item = &Issuer> {
        self.0.iter().map(|(_, issuer)| issuer)
    }

    /// Resolves when a keeper gave up for good: with its error and those of the others that give
    /// up too before they have a lease or `patience` is over, so that all are told together.
    pub(super) async fn failed(&mut self, patience: Duration) -> Vec<KeeperError> {
        let (first, error) = poll_fn(|context| {
            let failed =
                self.0.iter_mut().enumerate().find_map(|(index, (keeper, _))| {
                    match pin!(keeper.failed()).poll(context) {
                        Poll::Ready(error) => Some((index, error)),
                        Poll::Pending => None,
                    }
                });
            failed.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let mut errors = vec![error];
        let deadline = Instant::now() + patience;
        for (index, (keeper, issuer)) in self.0.iter_mut().enumerate() {
            if index == first {
                continue;
            }
            tokio::select! {
                biased;
                error = keeper.failed() => errors.push(error),
                _ = issuer.leased() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
        errors
    }

    /// Gives every lease back at once, within the deadline; by namespace, how each ended.
    pub(super) async fn release(self, deadline: Duration) -> Vec<(String, Released)> {
        let mut releases = JoinSet::new();
        for (keeper, issuer) in self.0 {
            let namespace = issuer.namespace().to_owned();
            releases.spawn(async move { (namespace, keeper.release(deadline).await) });
        }
        releases.join_all().await
    }
}
