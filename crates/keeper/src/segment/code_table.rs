//! The codes of a segment namespace, by name.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use raindrop_core::{issue::ClaimError, lease::Token, segment::SegmentSpec};
use tokio::time::Instant;

use super::{
    code::{Code, Current, Origin, RefillQueue},
    handle::RETRY_AFTER,
    namespace::Namespace,
    settings::RETRY_LATE,
};
use crate::support::{
    error::IssueError,
    status::{StoreFailure, UnavailableReason},
};

/// The codes of a namespace.
#[derive(Debug)]
pub(super) struct CodeTable {
    pub(super) namespace: Arc<Namespace>,
    pub(super) codes: RwLock<HashMap<String, Arc<Code>>>,
    /// Whether the keeper is shutting down, so that no code is created any more.
    sealed: AtomicBool,
    pub(super) queue: RefillQueue,
    /// The managed codes whose settings this version could not read when it last tried.
    pub(super) unreadable: Mutex<HashSet<String>>,
    /// When the managed codes were last read for a claim, and whether the read failed.
    pub(super) managed_read: tokio::sync::Mutex<Option<(Instant, Result<(), StoreFailure>)>>,
}

/// A snapshot of a segment namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentStatus {
    /// Whether every code serves its claims: it has as many numbers as they need, or gets them in
    /// time. Codes without numbers left do not count, since no other node has numbers for them
    /// either. Nor do codes that are created on demand and were not used yet.
    pub issuing: bool,
    /// Whether the last call of the store for this namespace failed.
    pub store_fails: bool,
    /// Why no number can be issued, or why issuing will soon stop.
    pub reason: Option<UnavailableReason>,
    /// The code that this reason concerns; `None` if it concerns all codes.
    pub code_of_reason: Option<String>,
    /// Number of codes.
    pub codes: usize,
    /// Number of reserved numbers that are left, in all codes.
    pub remaining: u64,
    /// The share of numbers that no node has reserved yet, from 1 down to 0, as last seen: the
    /// smallest of all codes.
    pub unreserved: f64,
}

impl CodeTable {
    pub(super) fn new(namespace: Namespace, queue: RefillQueue) -> Self {
        let namespace = Arc::new(namespace);
        let code = |(name, spec): (&String, &SegmentSpec)| {
            let current = Current { spec: *spec, origin: Origin::Configured };
            (name.clone(), Code::new(Arc::clone(&namespace), name, current, queue.clone()))
        };
        let codes = RwLock::new(namespace.settings.codes.iter().map(code).collect());
        let managed_read = tokio::sync::Mutex::default();
        let (sealed, unreadable) = (AtomicBool::new(false), Mutex::default());
        Self { namespace, codes, sealed, queue, unreadable, managed_read }
    }

    /// Returns the code of this name, if there is one.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Code>> {
        let codes = self.codes.read().unwrap_or_else(PoisonError::into_inner);
        codes.get(name).map(Arc::clone)
    }

    /// Returns the code of this name, and creates it if that is allowed. `client` is called only
    /// then.
    pub(super) fn get_or_create(
        &self,
        client: Option<&(dyn Fn() -> u64 + Sync)>,
        name: &str,
    ) -> Result<Arc<Code>, IssueError> {
        self.get(name).map_or_else(|| self.create(client, name), Ok)
    }

    #[cold]
    fn create(
        &self,
        client: Option<&(dyn Fn() -> u64 + Sync)>,
        name: &str,
    ) -> Result<Arc<Code>, IssueError> {
        let mut codes = self.codes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = codes.get(name) {
            return Ok(Arc::clone(code));
        }
        // Under the lock of the codes, under which a read of the store adds names.
        if self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).contains(name) {
            // With other settings, this node would issue what the code's settings rule out.
            let reason = UnavailableReason::UnreadableSettings;
            return Err(IssueError::NoLease { reason, retry_after: RETRY_AFTER });
        }
        let spec = self.namespace.settings.on_demand(name).map_err(IssueError::Refused)?;
        if self.is_sealed() {
            let reason = UnavailableReason::ShuttingDown;
            return Err(IssueError::NoLease { reason, retry_after: RETRY_AFTER });
        }
        let max = self.namespace.settings.codes_max;
        for refused in self.namespace.creations.take_refused() {
            codes.remove(&refused);
        }
        if codes.len() >= max {
            let refused = ClaimError::TooManyCodes { max, retry_after: RETRY_LATE };
            return Err(IssueError::Refused(refused));
        }
        let (namespace, queue) = (Arc::clone(&self.namespace), self.queue.clone());
        let origin = Origin::OnDemand { client: client.map(|client| client()) };
        let code = Code::new(namespace, name, Current { spec, origin }, queue);
        codes.insert(name.to_owned(), Arc::clone(&code));
        Ok(code)
    }

    /// Removes the codes whose creation was refused, so that a later claim can ask for them again.
    #[cold]
    pub(super) fn forget_refused(&self) {
        let mut codes = self.codes.write().unwrap_or_else(PoisonError::into_inner);
        for refused in self.namespace.creations.take_refused() {
            codes.remove(&refused);
        }
    }

    /// Returns every code, by name.
    pub(super) fn all(&self) -> Vec<Arc<Code>> {
        sorted(self.unsorted())
    }

    /// Returns whether a code is strict.
    pub(super) fn has_strict_code(&self) -> bool {
        self.unsorted().iter().any(|code| code.strict.is_some())
    }

    /// Gives up the reserved numbers that are left of any epoch but this one.
    pub(super) fn leave_other_epochs(&self, present: Token) {
        self.unsorted().iter().for_each(|code| code.leave_epoch(present));
    }

    /// Returns every code, unsorted: with many codes, sorting takes long.
    fn unsorted(&self) -> Vec<Arc<Code>> {
        self.codes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::SeqCst)
    }

    /// Stops creating codes. Returns the codes that there are.
    pub(super) fn seal(&self) -> Vec<Arc<Code>> {
        // Under the lock, so that no code is created unnoticed.
        let codes = self.codes.write().unwrap_or_else(PoisonError::into_inner);
        self.sealed.store(true, Ordering::SeqCst);
        sorted(codes.values().cloned().collect())
    }

    pub(super) fn status(&self) -> SegmentStatus {
        let namespace = &self.namespace;
        let report = namespace.shared.report.borrow().clone();
        let of_store = match (self.is_sealed(), report.prepared, report.failing) {
            (true, ..) => Some(UnavailableReason::ShuttingDown),
            _ if report.ended => Some(UnavailableReason::KeeperEnded),
            (_, _, Some(failing)) => Some(UnavailableReason::StoreUnavailable(failing.error)),
            (_, false, None) => Some(UnavailableReason::Starting),
            (_, true, None) => None,
        };
        let codes = self.unsorted();
        let mut reasons = Vec::new();
        let mut status = SegmentStatus {
            issuing: report.prepared,
            store_fails: namespace.poll_failures.is_failing()
                || namespace.refill_failures.is_failing() && !report.prepared,
            reason: None,
            code_of_reason: None,
            codes: 0,
            remaining: 0,
            unreserved: 1.0,
        };
        for code in &codes {
            code.report_issued();
            if code.is_retired() {
                continue;
            }
            let left = code.cursor.left();
            status.codes += 1;
            status.remaining += left;
            status.unreserved = status.unreserved.min(code.unreserved());
            status.store_fails |= code.is_failing();
            if left == 0 || (code.serves_no_claim() && !code.is_used_up()) {
                let reason = code.reason.borrow().clone();
                let reason = reason.or_else(|| code.failing_for(Duration::ZERO));
                // Without a reason, the code is only between two blocks.
                let is_stuck = reason.is_some() || of_store.is_some();
                status.issuing &= !(is_stuck && decides_readiness(code));
                reasons.extend(reason.map(|reason| (&code.name, reason)));
            }
        }
        let of_code = reasons.into_iter().min_by_key(|(name, _)| *name);
        (status.reason, status.code_of_reason) = match (of_store, of_code) {
            (Some(reason), _) => (Some(reason), None),
            (None, Some((name, reason))) => (Some(reason), Some(name.clone())),
            (None, None) => (None, None),
        };
        status.issuing &= status.reason != Some(UnavailableReason::ShuttingDown);
        status
    }
}

/// Returns whether the node is unready while this code is stuck. Clients must not be able to make a
/// node unready by asking for new codes.
fn decides_readiness(code: &Code) -> bool {
    let is_meant = code.current().origin == Origin::Configured || code.had_block();
    is_meant && !code.is_used_up()
}

fn sorted(mut codes: Vec<Arc<Code>>) -> Vec<Arc<Code>> {
    codes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    codes
}

#[cfg(test)]
mod tests;
