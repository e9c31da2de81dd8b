//! Finds Leases whose labels were changed.
//!
//! A list selects by labels, so it lacks a Lease whose labels a person or a program changed. Reads
//! and writes by name still find it. A keeper would create again a row that seems to be missing,
//! and a start would not see that its holder crashed. So each list is completed by the Leases that
//! its reader knows by name: the record of a namespace, the rows that the record lists, and the
//! codes that a node uses. Those that are found get their labels again. Where something keeps them
//! off, an admission policy for example, or a webhook delays them beyond the time-out, the store
//! pauses these repairs and says so ([`Repairs`]). Where the API server is away or busy, the next
//! list tries again.
//!
//! Lists for people lack a hidden Lease of which no name is known: a record, a code or its
//! settings. Tests: `tests`, and tests/store/kubernetes.rs on a real API server.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use rand::seq::SliceRandom as _;
use tokio::time::Instant;

use super::{
    KubernetesStore, every_worker,
    object::{LAYOUT, NAMESPACE, expect_uid, key_label, labels, name_of, relabel, uid},
    record::{Record, RowLeases},
};
use crate::{Result, StoreError, lock, with_sources};

/// Up to this many Leases are read one by one. For more, a list of all Leases is quicker.
const FEW: usize = 4;

/// The pause after labels did not hold. A refused patch costs the next request a new login.
pub(super) const PAUSE: Duration = Duration::from_mins(10);

/// The names of Leases that a list lacks, with the labels that each must have.
type Lacking = BTreeMap<String, BTreeMap<String, String>>;

/// How long a refusal counts as present. The repair is tried again after the pause, by the next
/// list that lacks a Lease.
pub(super) const REPORTED: Duration = PAUSE.saturating_mul(2);

/// The last repair of labels that did not hold, if none has held since.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    refused: Option<Refused>,
}

#[derive(Debug)]
struct Refused {
    at: Instant,
    lease: String,
    error: String,
}

impl Repairs {
    fn refused_at(&self) -> Option<Instant> {
        self.refused.as_ref().map(|refused| refused.at)
    }

    /// Returns which Lease keeps no labels, and why.
    pub(super) fn refused_labels(&self) -> Option<String> {
        let refused = self.refused.as_ref().filter(|refused| refused.at.elapsed() < REPORTED)?;
        Some(format!("Lease {} does not keep its labels: {}", refused.lease, refused.error))
    }
}

impl KubernetesStore {
    /// Returns the record of a namespace, which it takes out of a list of Leases. Reads the record
    /// by its name if the list lacks it.
    pub(super) async fn take_record(
        &self,
        namespace: &str,
        leases: &mut Vec<Lease>,
    ) -> Result<Option<Record>> {
        let name = self.tables.record(namespace);
        let lease = match leases.iter().position(|lease| name_of(lease) == name) {
            Some(at) => Some(leases.swap_remove(at)),
            None => {
                let labels = labels((&self.tables.worker, namespace), Some(LAYOUT));
                self.read_lacking(&Lacking::from([(name, labels)])).await?.pop()
            }
        };
        lease.map(|lease| Record::read(namespace, &lease)).transpose()
    }

    /// Adds the rows that a record lists, of these reserved keys, and a list of Leases lacks.
    pub(super) async fn add_lacking_rows(
        &self,
        namespace: &str,
        rows: impl Iterator<Item = (&String, &RowLeases)>,
        leases: &mut Vec<Lease>,
    ) -> Result<()> {
        let present: HashSet<&str> = leases.iter().map(uid).collect();
        let (mut lacking, mut listed) = (Lacking::new(), HashSet::new());
        for (reserved_key, row_leases) in rows {
            let scope = every_worker(namespace, reserved_key);
            let reserved = key_label(reserved_key);
            let labels = labels((&self.tables.worker, namespace), Some(&reserved));
            for (worker, uid) in &row_leases.uids {
                if !present.contains(uid.as_str()) {
                    lacking.insert(self.tables.row(&scope, *worker), labels.clone());
                    listed.insert(uid.clone());
                }
            }
        }
        let found = self.read_lacking(&lacking).await?;
        // A Lease of the same name that the record does not list is no row.
        leases.extend(found.into_iter().filter(|lease| listed.contains(uid(lease))));
        Ok(())
    }

    /// Adds the codes with these names of Leases that a list lacks.
    pub(super) async fn add_lacking_codes(
        &self,
        namespace: &str,
        names: &[String],
        leases: &mut Vec<Lease>,
    ) -> Result<()> {
        let present: HashSet<&str> = leases.iter().map(name_of).collect();
        let labels = labels((&self.tables.segment, namespace), None);
        let lacking = names.iter().filter(|name| !present.contains(name.as_str()));
        let lacking = lacking.map(|name| (name.clone(), labels.clone())).collect();
        leases.extend(self.read_lacking(&lacking).await?);
        Ok(())
    }

    /// Reads the Lease with the settings of a code by its name.
    pub(super) async fn settings_by_name(
        &self,
        namespace: &str,
        code: &str,
    ) -> Result<Option<Lease>> {
        let labels = labels((&self.tables.settings, namespace), None);
        let name = self.tables.settings(namespace, code);
        Ok(self.read_lacking(&Lacking::from([(name, labels)])).await?.pop())
    }

    /// Reads Leases by their names, and gives them their labels again. Those that do not exist are
    /// left out.
    async fn read_lacking(&self, lacking: &Lacking) -> Result<Vec<Lease>> {
        let mut found: Vec<Lease> = Vec::new();
        if lacking.len() <= FEW {
            for name in lacking.keys() {
                found.extend(self.api.get(name).await?);
            }
        } else {
            found = self.api.list("").await?;
            found.retain(|lease| lacking.contains_key(name_of(lease)));
        }
        // At random, because the first repair that does not hold ends the others: a Lease that
        // keeps no label must not keep the others without theirs.
        found.shuffle(&mut *lock(&self.random));
        for lease in &found {
            if !self.relabel(lease, &lacking[name_of(lease)]).await {
                break;
            }
        }
        Ok(found)
    }

    /// Creates a Lease, and returns whether it did. If there is one with its name, that one gets
    /// its labels again.
    pub(super) async fn create_or_relabel(&self, lease: &Lease) -> Result<bool> {
        if self.api.create(lease).await?.is_some() {
            return Ok(true);
        }
        if let (Some(present), Some(labels)) =
            (self.api.get(name_of(lease)).await?, &lease.metadata.labels)
        {
            self.relabel(&present, labels).await;
        }
        Ok(false)
    }

    /// Gives a Lease its labels again, unless repairs are paused. Returns whether others can be
    /// tried. A failure is no error, since the Lease was found: a command may only read, for
    /// example.
    async fn relabel(&self, lease: &Lease, labels: &BTreeMap<String, String>) -> bool {
        let changes = relabel(lease, labels);
        if changes.is_empty() {
            return true;
        }
        let refused_at = lock(&self.repairs).refused_at();
        if refused_at.is_some_and(|at| at.elapsed() < PAUSE) {
            return false;
        }
        let patch = [vec![expect_uid(uid(lease))], changes].concat();
        let repaired = self.api.patch(name_of(lease), patch).await;
        let mut repairs = lock(&self.repairs);
        match repaired {
            Ok(true) => {
                // Another repair may have failed meanwhile: its pause stays.
                if repairs.refused_at() == refused_at {
                    *repairs = Repairs::default();
                }
                true
            }
            // The Lease changed since it was read.
            Ok(false) => true,
            // The list before was answered in time, so a patch without an answer may be held up by
            // a webhook. Without a pause it would delay each list by the time-out.
            Err(error @ (StoreError::Refused(_) | StoreError::TimedOut { .. })) => {
                let (at, lease, error) = (Instant::now(), name_of(lease), with_sources(&error));
                if repairs.refused.is_none() {
                    tracing::warn!(
                        namespace = labels.get(NAMESPACE).map(String::as_str),
                        lease,
                        error,
                        retry_in = ?PAUSE,
                        "a Lease does not keep its labels"
                    );
                }
                repairs.refused = Some(Refused { at, lease: lease.to_owned(), error });
                false
            }
            // The API server is away or busy, which says nothing about the labels.
            Err(_) => false,
        }
    }
}
