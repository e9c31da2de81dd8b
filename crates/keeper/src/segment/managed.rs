//! Follows the codes that operators manage in the store while nodes run.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError},
    time::Duration,
};

use raindrop_core::segment::CodeSettings;
use raindrop_store::{ManagedCode, StoreError};
use tokio::time::{Instant, timeout};

use super::{
    code::{Code, Current, Origin},
    code_table::CodeTable,
    handle::RETRY_AFTER,
    namespace::Purpose,
};
use crate::support::{
    error::IssueError,
    observer::StoreOperation,
    status::{StoreFailure, UnavailableReason},
};

/// The time between two reads of the managed codes on each node. Commands promise operators that
/// nodes follow within 30 s, which includes a slow read.
pub(super) const POLL_EVERY: Duration = Duration::from_secs(25);

/// The shortest time between two reads for claims of unknown codes.
const READ_AGAIN: Duration = Duration::from_secs(1);

impl CodeTable {
    /// Reads the managed codes and takes over their settings.
    pub(super) async fn refresh(&self, purpose: Purpose) -> Result<(), StoreError> {
        let namespace = &self.namespace;
        let managed = namespace.shared.store.list_managed_codes(namespace.name());
        let managed = namespace.call(purpose, StoreOperation::Read, managed).await?;
        self.apply(&managed);
        Ok(())
    }

    /// Reads the settings of a code that clients asked for, before its first reservation, if the
    /// lists of the store may lack them. Otherwise the node would issue numbers by the defaults,
    /// with another increment perhaps. Returns whether nothing may be reserved for it: another code
    /// has taken its place, or this version cannot read its settings.
    pub(super) async fn replace_by_managed(&self, code: &Code) -> Result<bool, StoreError> {
        let (namespace, store) = (&self.namespace, &self.namespace.shared.store);
        if !code.is_yet_to_begin() || !store.lists_may_lack_codes() {
            return Ok(false);
        }
        let managed = store.managed_code(namespace.name(), &code.name);
        let managed = namespace.call(Purpose::Refill, StoreOperation::Read, managed).await?;
        let mut codes = self.codes.write().unwrap_or_else(PoisonError::into_inner);
        if self.is_sealed() {
            return Ok(false);
        }
        let is_readable =
            managed.as_ref().is_none_or(|managed| self.apply_one(&mut codes, managed));
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        // Only a list says something about other codes.
        if is_readable {
            unreadable.remove(&code.name);
        } else {
            unreadable.insert(code.name.clone());
        }
        drop(unreadable);
        let is_present =
            codes.get(&code.name).is_some_and(|present| std::ptr::eq(&**present, code));
        Ok(managed.is_some() && !is_present)
    }

    /// Reads the managed codes for a claim of a code that this node does not know, unless another
    /// claim has just done so.
    ///
    /// # Errors
    ///
    /// When the codes cannot be read, so that it is unknown whether the code exists.
    #[cold]
    pub(super) async fn refresh_for_claim(&self) -> Result<(), IssueError> {
        let namespace = &self.namespace;
        let read = async {
            let mut reports = namespace.shared.report.subscribe();
            // The sender lives as long as this namespace.
            let _ = reports.wait_for(|report| report.prepared || report.ended).await;
            // Claims that come meanwhile wait for this read instead of starting one of their own.
            let mut last_read = self.managed_read.lock().await;
            if let Some((at, read)) = &*last_read
                && at.elapsed() < READ_AGAIN
            {
                return read.clone();
            }
            let read =
                self.refresh(Purpose::Claim).await.map_err(|error| StoreFailure::from(&error));
            *last_read = Some((Instant::now(), read.clone()));
            read
        };
        let late = || match namespace.shared.report.borrow().prepared {
            true => UnavailableReason::StoreUnavailable(StoreFailure::of_kind("no answer in time")),
            false => UnavailableReason::Starting,
        };
        let reason = match timeout(namespace.settings.max_wait, read).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => UnavailableReason::StoreUnavailable(failure),
            Err(_) => namespace.shared.failing_for(Duration::ZERO).unwrap_or_else(late),
        };
        Err(IssueError::NoLease { reason, retry_after: RETRY_AFTER })
    }

    /// Takes over the settings of all managed codes that the store lists.
    pub(super) fn apply(&self, managed: &[ManagedCode]) {
        let mut codes = self.codes.write().unwrap_or_else(PoisonError::into_inner);
        if self.is_sealed() {
            return;
        }
        let mut unreadable = HashSet::new();
        for managed in managed {
            if !self.apply_one(&mut codes, managed) {
                unreadable.insert(managed.code.clone());
            }
        }
        *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner) = unreadable;
    }

    /// Takes over the settings of a managed code. A code that the configuration lists keeps its own.
    /// Returns `false` if this version cannot read them.
    fn apply_one(&self, codes: &mut HashMap<String, Arc<Code>>, managed: &ManagedCode) -> bool {
        let ManagedCode { code: name, settings: text, .. } = managed;
        let namespace = self.namespace.name();
        if self.namespace.settings.codes.contains_key(name) {
            tracing::warn!(
                namespace,
                code = name,
                "code is managed in the store and configured here: the configuration is used"
            );
            return true;
        }
        match CodeSettings::parse(text) {
            Ok(settings) => {
                self.take_over(codes, name, settings);
                true
            }
            Err(error) => {
                tracing::error!(
                    namespace,
                    code = name,
                    %error,
                    "settings of a managed code cannot be read: what was known before is used"
                );
                // Of a code without a block, nothing was known: it would begin with the defaults.
                if codes.get(name).is_some_and(|code| code.is_yet_to_begin())
                    && let Some(code) = codes.remove(name)
                {
                    code.seal_for(UnavailableReason::UnreadableSettings);
                }
                false
            }
        }
    }

    fn take_over(
        &self,
        codes: &mut HashMap<String, Arc<Code>>,
        name: &str,
        settings: CodeSettings,
    ) {
        let namespace = self.namespace.name();
        if let Some(code) = codes.get(name)
            && !code.must_be_replaced_by(&settings.spec)
        {
            if code.manage(settings) {
                tracing::info!(namespace, code = name, %settings, "code settings changed");
            }
            return;
        }
        let current = Current { spec: settings.spec, origin: Origin::Managed };
        let fresh = Code::new(Arc::clone(&self.namespace), name, current, self.queue.clone());
        fresh.manage(settings);
        if let Some(replaced) = codes.insert(name.to_owned(), Arc::clone(&fresh)) {
            // Clients asked for the code before an operator created it with other numbers or texts.
            replaced.seal_for(UnavailableReason::Starting);
            fresh.remember_last_block(&replaced);
        }
        tracing::debug!(namespace, code = name, %settings, "code is known");
    }
}
