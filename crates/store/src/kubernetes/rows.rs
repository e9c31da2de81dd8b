//! Worker rows: how they are read, and how their Leases are created and listed.
//!
//! A Lease is a row only if the record lists its UID, and the record says which one ([`listed`]):
//! its annotations do not, because a person may have changed them. An unlisted Lease with the name
//! of a row is one of these:
//!
//! - never written, or with marks within the template's: a late or cut-short creation, or a copy.
//!   The store deletes the Lease, and creates another one for the row.
//! - written beyond the template ([`KubernetesStore::is_beyond`]): used with another record. A new
//!   row could repeat its IDs, so this is an error for the operator.
//! - written before the record was lost and created again: the new record lists it again
//!   ([`KubernetesStore::unlisted`]).
//!
//! Tests: `tests`, and tests/store/kubernetes.rs.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::coordination::v1::Lease;
use raindrop_core::lease::{Row, Token};
use tokio::time::Instant;

use super::{
    KubernetesStore,
    object::{
        self, LAYOUT, RESERVED, RESERVED_KEY, has_annotations_of, key_label, lease, name_of,
        row_annotations, uid, was_written,
    },
    record::{self, Record, RowLeases},
};
use crate::{Result, Scope, StoreError, lock};

/// The Leases of a namespace's record and of its rows of one reserved key. Those whose labels were
/// changed are read after the others.
pub(super) struct Snapshot {
    pub(super) record: Option<Record>,
    pub(super) leases: Vec<Lease>,
}

impl Snapshot {
    /// Returns the rows of the reserved key.
    pub(super) fn row_leases(&self, scope: &Scope) -> &RowLeases {
        self.record.as_ref().map_or(&record::NONE, |record| record.row_leases(&scope.reserved_key))
    }
}

impl KubernetesStore {
    /// Reads the record and the rows of a scope.
    pub(super) async fn snapshot(&self, scope: &Scope) -> Result<Snapshot> {
        let reserved = key_label(&scope.reserved_key);
        let further = format!(",{RESERVED} in ({LAYOUT},{reserved})");
        let namespace = Some(scope.namespace.as_str());
        let mut leases = self.leases_of(&self.tables.worker, namespace, &further).await?;
        let record = self.take_record(&scope.namespace, &mut leases).await?;
        if let Some(record) = &record {
            let rows = record.rows.get_key_value(&scope.reserved_key).into_iter();
            self.add_lacking_rows(&scope.namespace, rows, &mut leases).await?;
        }
        Ok(Snapshot { record, leases })
    }

    /// Reads the rows of a scope that the record lists and whose Lease exists.
    pub(super) fn read_created(
        &self,
        scope: &Scope,
        row_leases: &RowLeases,
        leases: &[Lease],
    ) -> Result<Vec<Result<Row>>> {
        let now_ms = self.api.clock.earliest_ms()?;
        let workers = scope.min_worker..=scope.max_worker;
        let inside = listed(row_leases, leases).filter(|(worker, _)| workers.contains(worker));
        Ok(inside.map(|(worker, lease)| object::row(scope, worker, lease, now_ms)).collect())
    }

    /// Returns the rows that a recreated record must list again, with the UIDs of their Leases. The
    /// recreated record began an epoch, so no lease on them starts before its barrier.
    pub(super) fn unlisted(&self, scope: &Scope, snapshot: &Snapshot) -> Vec<(u64, String)> {
        let is_rewritten = |record: &Record| {
            record.layout.history.has_failed_over()
                && !record.rows.contains_key(&scope.reserved_key)
        };
        if !snapshot.record.as_ref().is_some_and(is_rewritten) {
            return Vec::new();
        }
        let written = snapshot.leases.iter().filter(|lease| was_written(lease));
        let rows = written.filter_map(|lease| Some((object::worker(lease)?, lease)));
        let named = rows.filter(|(worker, it)| name_of(it) == self.tables.row(scope, *worker));
        named.map(|(worker, lease)| (worker, uid(lease).to_owned())).collect()
    }

    /// Returns the workers of a scope that have neither a listed Lease nor a template, ascending.
    pub(super) fn missing(&self, scope: &Scope, snapshot: &Snapshot) -> Result<Vec<u64>> {
        let row_leases = snapshot.row_leases(scope);
        let listed: HashMap<_, _> = listed(row_leases, &snapshot.leases)
            .map(|(worker, lease)| (uid(lease), worker))
            .collect();
        let record = snapshot.record.as_ref();
        let created = record.and_then(|record| record.layout.created_rows(&scope.reserved_key));
        let was_created = |worker| created.is_some_and(|created| created.contains(worker));
        // A written Lease that the record neither lists nor has created belongs to a lost record.
        // Rows that are created beside it would begin without marks.
        let is_foreign =
            |lease: &&Lease| was_written(lease) && !object::worker(lease).is_some_and(was_created);
        let mut unlisted = snapshot.leases.iter().filter(|lease| !listed.contains_key(uid(lease)));
        if let Some(lease) = unlisted.find(is_foreign) {
            return Err(self.of_another_record(lease));
        }
        let present: HashSet<u64> = listed.into_values().collect();
        let is_missing =
            |worker: &u64| !present.contains(worker) && row_leases.not_created(*worker).is_none();
        Ok((scope.min_worker..=scope.max_worker).filter(is_missing).collect())
    }

    /// Returns whether an unlisted Lease was written, and has marks above those with which its row
    /// would be created. Then the row was used with another record.
    pub(super) fn is_beyond(scope: &Scope, lease: &Lease, template: &Row) -> bool {
        let marks = object::row(scope, template.worker, lease, 0).map(|row| row.marks);
        let is_within = marks.is_ok_and(|marks| {
            marks.lanes() == template.marks.lanes()
                && (0..marks.lanes()).all(|lane| marks[lane] <= template.marks[lane])
        });
        was_written(lease) && !is_within
    }

    /// Returns the workers whose rows cannot get a Lease until an operator decides about the Leases
    /// that have their names.
    pub(super) fn blocked(scope: &Scope, snapshot: &Snapshot) -> HashSet<u64> {
        let row_leases = snapshot.row_leases(scope);
        let blocked = snapshot.leases.iter().filter_map(|lease| {
            let row = row_leases.not_created(object::worker(lease)?)?;
            Self::is_beyond(scope, lease, &row).then_some(row.worker)
        });
        blocked.collect()
    }

    fn of_another_record(&self, lease: &Lease) -> StoreError {
        StoreError::Unusable(format!(
            "Lease {} is a worker row that the layout record does not list, so the record is not \
             the one that the row was used with: stop the nodes, delete the Lease, and run \
             raindrop workers raise before a node starts",
            name_of(lease)
        ))
    }

    /// Returns the UID of a row's Lease, which it creates if the row has none and its template has
    /// the token `expected`. Returns `None` if there is no such row, or its template has another
    /// token.
    pub(super) async fn uid_of(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
    ) -> Result<Option<String>> {
        if let Some(uid) = self.known_uid(scope, worker) {
            return Ok(Some(uid));
        }
        let begin = Instant::now();
        loop {
            let Some(record) = self.record(&scope.namespace).await? else { return Ok(None) };
            let row_leases = record.row_leases(&scope.reserved_key);
            if let Some(uid) = row_leases.uid(worker) {
                self.remember(scope, worker, uid);
                return Ok(Some(uid.to_owned()));
            }
            let Some(row) = row_leases.not_created(worker).filter(|row| row.token == expected)
            else {
                return Ok(None);
            };
            if record.is_full() {
                return Err(record.full());
            }
            if let Some(uid) = self.create_lease(scope, &row).await? {
                // The patch is refused if the row has another template by now, or another Lease.
                let patch = record.record_lease(&scope.reserved_key, worker, &uid);
                if self.api.patch(&self.tables.record(&scope.namespace), patch).await? {
                    self.remember(scope, worker, &uid);
                    return Ok(Some(uid));
                }
            }
            self.pause(begin).await?;
        }
    }

    /// Creates the Lease of a row that has none, and returns its UID; the record does not list it
    /// yet. Returns `None` if the row has got another Lease or template meanwhile.
    async fn create_lease(&self, scope: &Scope, row: &Row) -> Result<Option<String>> {
        let name = self.tables.row(scope, row.worker);
        let table = (&*self.tables.worker, &*scope.namespace);
        let reserved = key_label(&scope.reserved_key);
        let annotations = row_annotations(row).chain([(RESERVED_KEY, scope.reserved_key.clone())]);
        let new_lease = lease(name.clone(), table, Some(&reserved), annotations);
        let begin = Instant::now();
        loop {
            if let Some(created) = self.api.create(&new_lease).await? {
                return Ok(Some(created));
            }
            let Some(found) = self.api.get(&name).await? else {
                self.pause(begin).await?;
                continue;
            };
            // Another attempt created it. If that one lists and writes it, the record changes, and
            // the patch that is built on the old record is refused.
            if has_annotations_of(&found, &new_lease) {
                return Ok(Some(uid(&found).to_owned()));
            }
            let record = self.record(&scope.namespace).await?;
            let row_leases = record.as_ref().map(|record| record.row_leases(&scope.reserved_key));
            if row_leases.and_then(|row_leases| row_leases.not_created(row.worker)).as_ref()
                != Some(row)
            {
                return Ok(None);
            }
            if Self::is_beyond(scope, &found, row) {
                return Err(self.of_another_record(&found));
            }
            // A late creation of a row that vanished since, or a copy of a deleted Lease. The row
            // that is created after it has at least its marks.
            self.api.delete(&found).await?;
            self.pause(begin).await?;
        }
    }

    pub(super) fn known_uid(&self, scope: &Scope, worker: u64) -> Option<String> {
        lock(&self.uids).get(&key(scope, worker)).cloned()
    }

    pub(super) fn remember(&self, scope: &Scope, worker: u64, uid: &str) {
        lock(&self.uids).insert(key(scope, worker), uid.to_owned());
    }
}

/// Returns the Leases that the record lists, by worker id.
pub(super) fn listed<'a>(
    row_leases: &'a RowLeases,
    leases: &'a [Lease],
) -> impl Iterator<Item = (u64, &'a Lease)> {
    let by_uid: HashMap<_, _> = leases.iter().map(|lease| (uid(lease), lease)).collect();
    let lease = move |uid: &String| by_uid.get(uid.as_str()).copied();
    row_leases.uids.iter().filter_map(move |(worker, uid)| Some((*worker, lease(uid)?)))
}

pub(super) fn key(scope: &Scope, worker: u64) -> (String, String, u64) {
    (scope.namespace.clone(), scope.reserved_key.clone(), worker)
}
