//! The Kubernetes API of a cluster as a store, and with it etcd.
//!
//! Worker rows, layout records, segment codes and their settings are Leases of one namespace. A
//! swap is one JSON patch that tests the row's token; etcd acknowledges a write when a majority of
//! its members has it on disk. Reads name no `resourceVersion`, so the API server answers with the
//! newest state.
//!
//! Three things differ from a database. There is no statement over several objects: each write
//! tests versions, tokens or UIDs instead, and is repeated after a conflict (`pause`). Rows get
//! their object at their first write; see [`record`]. The clock is the API server's, in the
//! `Date` of its responses; see [`clock`].
//!
//! Tests: `tests`, against a simulated API, and tests/store/kubernetes.rs, against a real one.

mod api;
mod api_server;
mod clock;
mod labels;
mod object;
mod record;
mod rows;
mod segments;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, sync::Mutex, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use raindrop_core::lease::{History, Row, RowWrite, Token};
use rand::{RngExt as _, rngs::StdRng};
use tokio::time::{Instant, sleep};

use self::{
    api::Api,
    api_server::{Address, ApiServer},
    labels::Repairs,
    object::{
        NAMESPACE, TABLE, Tables, expect_token, expect_uid, is_under, namespace_label, row,
        row_patch, set, uid, was_written,
    },
    record::{Record, new_record, record_annotations},
    rows::{Snapshot, key, listed},
};
use super::{
    Failover, LayoutRecord, ListedRow, NewRows, Result, Scope, Store, StoreError, StoreSettings,
    Survey, UnreleasedRow, lock,
    record::{keep_free, keep_newest},
    store_id::StoreIdCheck,
    value::{readable, shortened},
};

/// The longest pause before the second attempt of an operation.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause before any attempt.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// The age up to which [`Store::summary`] returns the counts of an earlier survey.
const RECENT: Duration = Duration::from_mins(2);

/// Worker rows, layout records and segment codes in the API of a Kubernetes cluster.
pub(super) struct KubernetesStore {
    settings: StoreSettings,
    tables: Tables,
    api: Api,
    id_check: StoreIdCheck,
    /// The UIDs of rows' Leases, as the records listed them.
    uids: Mutex<HashMap<(String, String, u64), String>>,
    /// The last survey of each scope, and its time.
    surveyed: Mutex<HashMap<Scope, (Instant, Survey)>>,
    /// The repairs of labels that did not hold.
    repairs: Mutex<Repairs>,
    /// The source of random pauses.
    random: Mutex<StdRng>,
}

impl fmt::Debug for KubernetesStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesStore").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl KubernetesStore {
    pub(super) fn new(settings: &StoreSettings) -> Result<Self> {
        let server = ApiServer::Addressed(Address::new(settings)?);
        Ok(Self {
            tables: Tables::new(settings)?,
            api: Api::new(server, settings.timeout, settings.max_connections),
            id_check: StoreIdCheck::default(),
            settings: settings.clone(),
            uids: Mutex::default(),
            surveyed: Mutex::default(),
            repairs: Mutex::default(),
            random: Mutex::new(rand::make_rng()),
        })
    }

    /// Reads the record of a namespace, with its rows.
    async fn record(&self, namespace: &str) -> Result<Option<Record>> {
        let lease = self.api.get(&self.tables.record(namespace)).await?;
        lease.map(|lease| Record::read(namespace, &lease)).transpose()
    }

    /// Lists the Leases of a table that match `further`, a further selector; of one namespace, or
    /// of all.
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
        // Not compared with the annotation, which a person may have changed: different namespaces
        // have different labels.
        self.api.list(&format!("{selector}{further}")).await
    }

    /// Sets annotations of a Lease if it has this token and, with `Some`, this UID. Returns `false`
    /// if it has another one, or if there is no such Lease.
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
        let begin = Instant::now();
        loop {
            if self.api.patch(name, patch.clone()).await? {
                return Ok(true);
            }
            if !self.api.get(name).await?.as_ref().is_some_and(is_it) {
                return Ok(false);
            }
            self.pause(begin).await?;
        }
    }

    /// Returns the UID that the record's Lease must have; `None` if identities are not compared, or
    /// it is unknown.
    fn compared<'a>(&self, history: &'a History) -> Option<&'a str> {
        let is_compared = self.settings.failover == Failover::Auto && !history.identity.is_empty();
        is_compared.then_some(&history.identity)
    }

    /// Pauses for a random time before an attempt after a conflict. The longer the operation has
    /// taken, the longer the pause; once it has used up its time-out, this fails.
    async fn pause(&self, begin: Instant) -> Result<()> {
        let elapsed = begin.elapsed();
        if elapsed >= self.settings.timeout {
            return Err(StoreError::unavailable("others keep changing the same Lease"));
        }
        let longest = elapsed.clamp(FIRST_PAUSE, LONGEST_PAUSE);
        let pause = lock(&self.random).random_range(Duration::ZERO..=longest);
        sleep(pause).await;
        Ok(())
    }

    /// Reads a scope's record and those of its rows that have a Lease and can be parsed, and counts
    /// all of its rows.
    async fn survey_rows(&self, scope: &Scope) -> Result<(Snapshot, Vec<Row>, Survey)> {
        let snapshot = self.snapshot(scope).await?;
        let row_leases = snapshot.row_leases(scope);
        let created = self.read_created(scope, row_leases, &snapshot.leases)?;
        let created = readable(scope, created.into_iter());
        let held = created.iter().filter(|row| !row.free);
        let mut survey = Survey {
            now_ms: self.api.clock.latest_ms()?,
            identity: self.identity(snapshot.record.as_ref()),
            record: snapshot.record.as_ref().map(|record| record.layout.clone()),
            held: held.clone().count() as u64,
            free: created.iter().filter(|row| row.free).count() as u64
                + row_leases.count_not_created(scope.min_worker..=scope.max_worker),
            next_expiry_ms: held.map(|row| row.expires_ms).min(),
        };
        if survey.record.is_none() {
            // The record is missing. Count the rows of the lost one: the written Leases. One that
            // was never written was never leased.
            survey.free = snapshot.leases.iter().filter(|lease| was_written(lease)).count() as u64;
        } else {
            lock(&self.surveyed).insert(scope.clone(), (Instant::now(), survey.clone()));
        }
        Ok((snapshot, created, survey))
    }

    /// Returns the identity of a record, if identities are compared: the UID of its Lease, because
    /// a record that was restored from a backup is another object.
    fn identity(&self, record: Option<&Record>) -> Option<String> {
        let is_compared = self.settings.failover == Failover::Auto;
        is_compared.then(|| record.map(|record| record.uid.clone()).unwrap_or_default())
    }
}

#[async_trait]
impl Store for KubernetesStore {
    fn clock_is_local(&self) -> bool {
        false
    }

    fn is_verified(&self) -> bool {
        // `Address::connect` accepts only a verified certificate, or a server on this machine.
        true
    }

    fn longest_call(&self) -> Duration {
        self.settings.longest_call()
    }

    fn refused_labels(&self) -> Option<String> {
        lock(&self.repairs).refused_labels()
    }

    async fn prepare(&self) -> Result<Vec<String>> {
        self.id_check.run(self, &self.settings).await?;
        // Fails if the server does not respond, or does not let us read.
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
            StoreError::unavailable("the layout record was deleted while it was created")
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
        let begin = Instant::now();
        loop {
            let mut snapshot = self.snapshot(scope).await?;
            let unlisted = self.unlisted(scope, &snapshot);
            if let Some(record) = snapshot.record.as_mut().filter(|_| !unlisted.is_empty()) {
                let row_leases = record.rows.entry(scope.reserved_key.clone()).or_default();
                row_leases.uids.extend(unlisted.iter().cloned());
            }
            let missing = self.missing(scope, &snapshot)?;
            if missing.is_empty() && unlisted.is_empty() {
                return Ok(true);
            }
            let Some(record) = snapshot.record else { return Ok(false) };
            if record.layout.token != new.record || self.api.clock.latest_ms()? > new.until_ms {
                return Ok(false);
            }
            // The patch is refused if the record changed since the snapshot: rows may have been
            // added, used and lost meanwhile.
            let patch = record.add_rows(&scope.reserved_key, &missing, &unlisted, new);
            let name = self.tables.record(&scope.namespace);
            if self.api.patch(&name, patch).await? {
                return Ok(true);
            }
            self.pause(begin).await?;
        }
    }

    async fn survey(&self, scope: &Scope) -> Result<Survey> {
        Ok(self.survey_rows(scope).await?.2)
    }

    async fn summary(&self, scope: &Scope) -> Result<Survey> {
        let last = lock(&self.surveyed).get(scope).cloned();
        let Some((_, recent)) = last.filter(|(at, _)| at.elapsed() < RECENT) else {
            return self.survey(scope).await;
        };
        let Some(record) = self.record(&scope.namespace).await? else {
            return self.survey(scope).await;
        };
        let (now_ms, identity) = (self.api.clock.latest_ms()?, self.identity(Some(&record)));
        Ok(Survey { now_ms, identity, record: Some(record.layout), ..recent })
    }

    async fn unreleased_rows(&self, namespace: &str, limit: u32) -> Result<Vec<UnreleasedRow>> {
        let mut leases = self.leases_of(&self.tables.worker, Some(namespace), "").await?;
        let Some(record) = self.take_record(namespace, &mut leases).await? else {
            return Ok(Vec::new());
        };
        self.add_lacking_rows(namespace, record.rows.iter(), &mut leases).await?;
        let mut rows = Vec::new();
        for (reserved_key, row_leases) in &record.rows {
            rows.extend(
                listed(row_leases, &leases)
                    .filter_map(|(worker, lease)| object::unreleased(reserved_key, worker, lease)),
            );
        }
        keep_newest(&mut rows, limit);
        Ok(rows)
    }

    async fn free_rows(&self, scope: &Scope, holder: Option<&str>, limit: u32) -> Result<Vec<Row>> {
        let (snapshot, mut rows, _) = self.survey_rows(scope).await?;
        let has_room = snapshot.record.as_ref().is_some_and(|record| !record.is_full());
        if holder.is_none() && has_room {
            let blocked = Self::blocked(scope, &snapshot);
            let not_created =
                snapshot.row_leases(scope).all_not_created(scope.min_worker..=scope.max_worker);
            // Rows without a Lease have been unused equally long, so any of them will do.
            let not_created = not_created.filter(|row| !blocked.contains(&row.worker));
            rows.extend(not_created.take(limit as usize));
        }
        keep_free(&mut rows, holder.map(shortened), limit);
        Ok(rows)
    }

    async fn read_row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>> {
        let name = self.tables.row(scope, worker);
        // The row's Lease may be created between the two reads. Then the second attempt finds it.
        for _ in 0..2 {
            let lease = self.api.get(&name).await?;
            let read =
                |lease: &Lease| row(scope, worker, lease, self.api.clock.earliest_ms()?).map(Some);
            let known = self.known_uid(scope, worker);
            if let Some(lease) = lease.as_ref().filter(|lease| known.as_deref() == Some(uid(lease)))
            {
                return read(lease);
            }
            let Some(record) = self.record(&scope.namespace).await? else { return Ok(None) };
            let row_leases = record.row_leases(&scope.reserved_key);
            if let Some(not_created) = row_leases.not_created(worker) {
                return Ok(Some(not_created));
            }
            let Some(listed) = row_leases.uid(worker) else { return Ok(None) };
            self.remember(scope, worker, listed);
            if let Some(lease) = lease.as_ref().filter(|lease| uid(lease) == listed) {
                return read(lease);
            }
        }
        Ok(None)
    }

    async fn swap_row(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool> {
        let name = self.tables.row(scope, worker);
        let begin = Instant::now();
        let mut tried = None;
        loop {
            let uid = self.uid_of(scope, worker, expected).await?;
            // Try each UID once: a Lease with the right token may be a copy of a deleted one.
            let Some(uid) = uid.filter(|uid| tried.as_ref() != Some(uid)) else { return Ok(false) };
            let patch = row_patch(&uid, (worker, expected), write, self.api.clock.latest_ms()?);
            if self.api.patch(&name, patch).await? {
                return Ok(true);
            }
            let found = self.api.get(&name).await?;
            match found.filter(|lease| object::uid(lease) == uid) {
                Some(row) if is_under(&row, expected) => {}
                Some(_) => return Ok(false),
                None => {
                    // The row may have a new Lease since its UID was read.
                    lock(&self.uids).remove(&key(scope, worker));
                    tried = Some(uid);
                }
            }
            self.pause(begin).await?;
        }
    }

    async fn list_rows(&self) -> Result<Vec<ListedRow>> {
        let mut leases = self.leases_of(&self.tables.worker, None, "").await?;
        let mut records = Vec::new();
        for lease in &leases {
            let Some(namespace) = self.tables.namespace_of_record(lease) else { continue };
            let record = Record::read(&namespace, lease)?;
            records.push((namespace, record));
        }
        let mut rows = Vec::new();
        for (namespace, record) in &records {
            self.add_lacking_rows(namespace, record.rows.iter(), &mut leases).await?;
            for (key, row_leases) in &record.rows {
                let scope = every_worker(namespace, key);
                let created = self.read_created(&scope, row_leases, &leases)?;
                let not_created = row_leases.all_not_created(0..=u64::MAX).map(Ok);
                for row in created.into_iter().chain(not_created) {
                    let Scope { namespace, reserved_key, .. } = scope.clone();
                    rows.push(ListedRow { namespace, reserved_key, row: row? });
                }
            }
        }
        let key = |listed: &ListedRow| {
            (listed.namespace.clone(), listed.reserved_key.clone(), listed.row.worker)
        };
        rows.sort_by_cached_key(key);
        Ok(rows)
    }

    async fn close(&self) {
        self.api.close().await;
    }
}

/// Returns the scope of all worker ids of a reserved key.
fn every_worker(namespace: &str, reserved_key: &str) -> Scope {
    Scope {
        namespace: namespace.to_owned(),
        reserved_key: reserved_key.to_owned(),
        min_worker: 0,
        max_worker: u64::MAX,
    }
}
