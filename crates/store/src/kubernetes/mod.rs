//! The Kubernetes API of a cluster, and with it etcd.
//!
//! Worker rows, layout records, segment codes and their settings are Leases of one namespace. A
//! swap is one JSON patch that tests the row's token; etcd acknowledges a write when a majority of
//! its members has it on disk. Reads name no `resourceVersion`, so the API server answers with the
//! newest state.
//!
//! The clock is the API server's, in the `Date` of its answers; see [`clock`].

mod api;
mod births;
mod clock;
mod names;
mod object;
mod place;
mod record;
mod retries;
mod rows;
mod segments;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Mutex,
    time::Duration,
};

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use raindrop_core::lease::{History, Row, RowWrite, Token};
use rand::{SeedableRng as _, rngs::StdRng};
use tokio::time::Instant;

use self::{
    api::Api,
    names::{Tables, namespace_label},
    object::{
        NAMESPACE, RESERVED_KEY, TABLE, annotation, expect_token, expect_uid, is_under, name_of,
        set,
    },
    place::{Address, Place},
    record::{Record, new_record, record_annotations},
    retries::Retries,
    rows::Snapshot,
};
use super::{
    Counts, Failover, LayoutRecord, ListedRow, NewRows, Result, Scope, Store, StoreError,
    StoreSettings, Survey, lock,
    record::keep_free,
    value::{readable, shortened},
};

/// How old the counts of a survey may be that need not be exact.
const RECENT: Duration = Duration::from_mins(2);

/// Worker rows, layout records and segment codes in the API of a Kubernetes cluster.
pub(super) struct KubernetesStore {
    settings: StoreSettings,
    tables: Tables,
    api: Api,
    /// The UIDs of rows' Leases, as records listed them.
    uids: Mutex<HashMap<(String, String, u64), String>>,
    /// The last counts of each scope.
    counted: Mutex<Vec<(Scope, Instant, Counted)>>,
    /// For pauses.
    random: Mutex<StdRng>,
}

/// The rows of a scope, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    held: u64,
    free: u64,
    next_expiry_ms: Option<i64>,
}

impl fmt::Debug for KubernetesStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesStore").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl KubernetesStore {
    pub(super) fn new(settings: &StoreSettings) -> Result<Self> {
        let place = Place::Addressed(Address::new(settings)?);
        Ok(Self {
            tables: Tables::new(settings)?,
            api: Api::new(place, settings.timeout, settings.max_connections),
            settings: settings.clone(),
            uids: Mutex::default(),
            counted: Mutex::default(),
            random: Mutex::new(rand::make_rng()),
        })
    }

    /// Reads the record of a namespace, with its rows.
    async fn record(&self, namespace: &str) -> Result<Option<Record>> {
        let lease = self.api.get(&self.tables.record(namespace)).await?;
        lease.map(|lease| Record::read(namespace, &lease)).transpose()
    }

    /// Lists the Leases of a table, of one namespace or of all, that a further selector names.
    async fn leases_of(
        &self,
        table: &str,
        namespace: Option<&str>,
        further: &str,
    ) -> Result<Vec<Lease>> {
        let mut selector = format!("{TABLE}={table}");
        if let Some(namespace) = namespace {
            selector = format!("{selector},{NAMESPACE}={}", namespace_label(namespace));
        }
        let mut leases = self.api.list(&format!("{selector}{further}")).await?;
        // A label may be cut short, so that it does not tell namespaces apart.
        leases.retain(|lease| {
            namespace.is_none_or(|namespace| annotation(lease, NAMESPACE) == Some(namespace))
        });
        Ok(leases)
    }

    /// Sets annotations of a Lease that has this token and, if that is compared, this UID; `false`
    /// when it has another one, or is missing.
    async fn set_under(
        &self,
        name: &str,
        (expected, uid): (Token, Option<&str>),
        annotations: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<bool> {
        let mut patch = vec![expect_token(expected)];
        patch.extend(uid.map(expect_uid));
        patch.extend(set(annotations));
        let is_it = |lease: &Lease| {
            is_under(lease, expected) && uid.is_none_or(|expected| object::uid(lease) == expected)
        };
        let mut retries = self.retries();
        loop {
            if self.api.patch(name, patch.clone()).await? {
                return Ok(true);
            }
            if !self.api.get(name).await?.as_ref().is_some_and(is_it) {
                return Ok(false);
            }
            retries.pause().await?;
        }
    }

    /// Returns the UID that the record's Lease must have, if identities are compared and it is known.
    fn compared<'a>(&self, history: &'a History) -> Option<&'a str> {
        let is_compared = self.settings.failover == Failover::Auto && !history.identity.is_empty();
        is_compared.then_some(&history.identity)
    }

    fn retries(&self) -> Retries {
        Retries::new(self.settings.timeout, lock(&self.random).fork())
    }

    /// Returns the latest time that the server's clock can show, in Unix ms.
    fn latest_ms(&self) -> Result<i64> {
        self.api.clock.latest_ms().ok_or_else(no_clock)
    }

    /// Returns the earliest time that the server's clock can show, in Unix ms.
    fn earliest_ms(&self) -> Result<i64> {
        self.api.clock.earliest_ms().ok_or_else(no_clock)
    }

    /// Counts the rows of a scope, and keeps the counts for surveys that need not be exact.
    fn count(&self, scope: &Scope, snapshot: &Snapshot, born: &[Row]) -> Counted {
        let mut counted = Counted::default();
        if snapshot.record.is_none() {
            // Those of a record that was lost; what was never written is nobody's.
            counted.free = snapshot.written();
            return counted;
        }
        for row in born {
            if row.free {
                counted.free += 1;
            } else {
                counted.held += 1;
                let next = counted.next_expiry_ms.unwrap_or(i64::MAX).min(row.expires_ms);
                counted.next_expiry_ms = Some(next);
            }
        }
        let births = snapshot.births(scope);
        counted.free +=
            births.map_or(0, |births| births.count_unborn(scope.min_worker..=scope.max_worker));
        let mut kept = lock(&self.counted);
        kept.retain(|(of, ..)| of != scope);
        kept.push((scope.clone(), Instant::now(), counted));
        counted
    }

    fn recent_counts(&self, scope: &Scope) -> Option<Counted> {
        let kept = lock(&self.counted);
        let is_recent =
            |(of, at, _): &&(Scope, Instant, Counted)| of == scope && at.elapsed() < RECENT;
        kept.iter().find(is_recent).map(|(.., counted)| *counted)
    }
}

#[async_trait]
impl Store for KubernetesStore {
    fn clock_is_local(&self) -> bool {
        false
    }

    fn is_verified(&self) -> bool {
        // It is used with a verified certificate only, or on this machine.
        true
    }

    fn longest_call(&self) -> Duration {
        self.settings.longest_call()
    }

    async fn prepare(&self) -> Result<Vec<String>> {
        // Whether the server answers, and lets us read.
        self.api.get(&self.tables.record("default")).await?;
        Ok(Vec::new())
    }

    async fn create_record(&self, namespace: &str, record: &LayoutRecord) -> Result<LayoutRecord> {
        let lease = new_record(&self.tables, namespace, record);
        if self.api.create(&lease).await?.is_some() {
            return Ok(record.clone());
        }
        let present = self.record(namespace).await?;
        present.map(|record| record.layout).ok_or_else(|| {
            StoreError::Unavailable("the layout record was deleted while it was created".into())
        })
    }

    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>> {
        Ok(self.record(namespace).await?.map(|record| record.layout))
    }

    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool> {
        let name = self.tables.record(namespace);
        let uid = self.compared(&record.history);
        self.set_under(&name, (expected, uid), record_annotations(record)).await
    }

    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool> {
        let mut retries = self.retries();
        loop {
            let snapshot = self.snapshot(scope).await?;
            let missing = self.missing(scope, &snapshot)?;
            if missing.is_empty() {
                return Ok(true);
            }
            let Some(record) = snapshot.record else { return Ok(false) };
            if record.layout.token != new.record || self.latest_ms()? > new.until_ms {
                return Ok(false);
            }
            // The record must not have changed since: then rows may have been added, used and lost.
            let patch = record.add_rows(&scope.reserved_key, &missing, new);
            let name = self.tables.record(&scope.namespace);
            if self.api.patch(&name, patch).await? {
                return Ok(true);
            }
            retries.pause().await?;
        }
    }

    async fn survey(&self, scope: &Scope, counts: Counts) -> Result<Survey> {
        let recent = self.recent_counts(scope).filter(|_| counts == Counts::Recent);
        let known = match recent {
            Some(recent) => self.record(&scope.namespace).await?.map(|record| (record, recent)),
            None => None,
        };
        let (record, counted) = match known {
            Some((record, recent)) => (Some(record), recent),
            None => {
                let snapshot = self.snapshot(scope).await?;
                let born = readable(scope, self.born(scope, &snapshot)?.into_iter());
                let counted = self.count(scope, &snapshot, &born);
                (snapshot.record, counted)
            }
        };
        let Counted { held, free, next_expiry_ms } = counted;
        // The object itself: one that was restored from a backup is another one.
        let identity = record.as_ref().map(|record| record.uid.clone()).unwrap_or_default();
        let identity = Some(identity).filter(|_| self.settings.failover == Failover::Auto);
        let record = record.map(|record| record.layout);
        let now_ms = self.latest_ms()?;
        Ok(Survey { now_ms, identity, record, held, free, next_expiry_ms })
    }

    async fn free_rows(&self, scope: &Scope, holder: Option<&str>, limit: u32) -> Result<Vec<Row>> {
        let snapshot = self.snapshot(scope).await?;
        let mut rows = readable(scope, self.born(scope, &snapshot)?.into_iter());
        self.count(scope, &snapshot, &rows);
        let has_room = snapshot.record.as_ref().is_some_and(|record| !record.is_full());
        if let Some(births) = snapshot.births(scope).filter(|_| holder.is_none() && has_room) {
            let blocked = self.blocked(scope, births, &snapshot);
            let unborn = births.all_unborn(scope.min_worker..=scope.max_worker);
            // All of them were unused for equally long.
            let unborn = unborn.filter(|row| !blocked.contains(&row.worker));
            rows.extend(unborn.take(limit as usize));
        }
        keep_free(&mut rows, holder.map(shortened), limit);
        Ok(rows)
    }

    async fn read_row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>> {
        self.find(scope, worker).await
    }

    async fn swap_row(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool> {
        self.swap_row(scope, worker, expected, write).await
    }

    async fn list_rows(&self) -> Result<Vec<ListedRow>> {
        let leases = self.leases_of(&self.tables.worker, None, "").await?;
        let mut records = BTreeMap::new();
        let mut scopes: BTreeMap<(String, String), Vec<Lease>> = BTreeMap::new();
        for lease in leases {
            let text = |name| annotation(&lease, name).unwrap_or_default().to_owned();
            let namespace = text(NAMESPACE);
            if name_of(&lease) == self.tables.record(&namespace) {
                let record = Record::read(&namespace, &lease)?;
                for reserved_key in record.reserved_keys() {
                    scopes.entry((namespace.clone(), reserved_key.to_owned())).or_default();
                }
                records.insert(namespace, record);
            } else {
                scopes.entry((namespace, text(RESERVED_KEY))).or_default().push(lease);
            }
        }
        let mut listed = Vec::new();
        for ((namespace, reserved_key), leases) in scopes {
            let births = records.get(&namespace).and_then(|record| record.births(&reserved_key));
            let Some(births) = births else { continue };
            let scope = Scope { namespace, reserved_key, min_worker: 0, max_worker: u64::MAX };
            let mut rows: Vec<Row> =
                self.read_born(&scope, births, &leases)?.into_iter().collect::<Result<_>>()?;
            rows.extend(births.all_unborn(0..=u64::MAX));
            rows.sort_by_key(|row| row.worker);
            let Scope { namespace, reserved_key, .. } = scope;
            listed.extend(rows.into_iter().map(|row| ListedRow {
                namespace: namespace.clone(),
                reserved_key: reserved_key.clone(),
                row,
            }));
        }
        Ok(listed)
    }

    async fn close(&self) {
        self.api.close().await;
    }
}

fn no_clock() -> StoreError {
    StoreError::Unavailable("the API server has told no date yet".into())
}
