//! Issues numbers from reserved blocks.

use std::sync::Arc;

use raindrop_core::{
    code::{is_valid_code, name_of_series},
    id::Id,
    issue::{ClaimError, Count},
    segment::{Numbers, SegmentSpec, TextForm},
};

use super::{
    code::Code,
    code_table::{CodeTable, SegmentStatus},
    handle::{RETRY_AFTER, SegmentHandle},
    keyed::{IdempotencyKey, KeyedNumber},
    namespace::Purpose,
};
use crate::support::{error::IssueError, status::UnavailableReason};

/// Issues numbers of one segment namespace. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SegmentIssuer(pub(super) Arc<CodeTable>);

impl SegmentIssuer {
    /// Issues one number of this code.
    ///
    /// # Errors
    ///
    /// See [`IssueError`]. No number was issued then.
    pub async fn next_id(&self, code: &str) -> Result<Id, IssueError> {
        let mut numbers = self.next_ids(code, 1).await?;
        Ok(numbers.next().expect("a claim of one has one number"))
    }

    /// Issues `count` numbers of this code, ascending. Waits only if no block has them, for at most
    /// [`SegmentSettings::max_wait`](super::SegmentSettings::max_wait).
    ///
    /// # Errors
    ///
    /// See [`IssueError`]. No number was issued then.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after it claimed numbers, no caller ever gets them.
    pub async fn next_ids(&self, code: &str, count: u32) -> Result<Numbers, IssueError> {
        self.next_ids_for(None, code, count.into()).await
    }

    /// Issues numbers for a client, who may create a share of the codes
    /// ([`SegmentSettings::codes_max_per_client`](super::SegmentSettings::codes_max_per_client)).
    /// The issuer calls `client`, which identifies the client, only if this node does not know the
    /// code.
    ///
    /// # Errors
    ///
    /// See [`IssueError`]. No number was issued then.
    pub async fn next_ids_for(
        &self,
        client: Option<&(dyn Fn() -> u64 + Sync)>,
        code: &str,
        count: Count,
    ) -> Result<Numbers, IssueError> {
        self.learn(code).await?;
        let issued = self.code(client, code)?.claim(count).await;
        if let Err(IssueError::Refused(
            ClaimError::TooManyCodes { .. } | ClaimError::ClientShareUsed { .. },
        )) = issued
        {
            self.0.forget_refused();
        }
        issued
    }

    /// Issues the number of a key. The first claim with this key takes a number, and every further one
    /// gets the same for at least 30 days, whichever process it asks.
    ///
    /// # Errors
    ///
    /// See [`IssueError`]. The key may have got its number nevertheless: repeat the claim.
    /// [`ClaimError::NoIdempotencyKeys`] for a code that is not strict, or if the store keeps no keys.
    pub async fn number_of_key(
        &self,
        client: Option<&(dyn Fn() -> u64 + Sync)>,
        code: &str,
        key: &IdempotencyKey,
    ) -> Result<KeyedNumber, IssueError> {
        self.learn(code).await?;
        let found = self.code(client, code)?;
        let refused = |because| {
            let refused = ClaimError::NoIdempotencyKeys { code: code.to_owned(), because };
            Err(IssueError::Refused(refused))
        };
        let Some(strict) = &found.strict else { return refused("it is not strict") };
        let store = &self.0.namespace.shared.store;
        if store.keeps_keys() {
            let number = Box::pin(found.claim_keyed(strict, key)).await;
            // A store finds out that it keeps none when it is prepared.
            if number.is_ok() || store.keeps_keys() {
                return number;
            }
        }
        refused("the store keeps none: use a database that has the table of keys")
    }

    /// Reads the managed codes if this node does not know a code, which an operator may have created
    /// since they were last read. Returns whether the node did not know it.
    ///
    /// # Errors
    ///
    /// When the store cannot say whether the code exists.
    pub async fn learn(&self, code: &str) -> Result<bool, IssueError> {
        if self.0.get(code).is_some() || !is_valid_code(code) {
            return Ok(false);
        }
        let codes = Arc::clone(&self.0);
        let refreshed = async move { codes.refresh_for_claim().await };
        let refreshed = Box::pin(self.0.namespace.shared.runtime.run(refreshed)).await;
        let reason = UnavailableReason::KeeperEnded;
        refreshed.unwrap_or(Err(IssueError::NoLease { reason, retry_after: RETRY_AFTER }))?;
        Ok(true)
    }

    /// Returns the form in which the numbers of this code are written; `None` for plain numbers and
    /// for a code that this node neither knows nor may create, even after [`Self::learn`].
    pub fn text_form(&self, code: &str) -> Option<TextForm> {
        self.form_and_order(code).0
    }

    /// Returns [`Self::text_form`], and whether the code is strict.
    pub fn form_and_order(&self, code: &str) -> (Option<TextForm>, bool) {
        match self.0.get(code) {
            Some(code) => (code.text_form(), code.strict.is_some()),
            None => {
                let spec = self.settings().on_demand(code);
                spec.map_or((None, false), |spec| (spec.text, spec.strict))
            }
        }
    }

    /// Returns the settings of this code: for one that this node does not know, those with which a
    /// claim would create it. `None` for a code that no claim may create, even after
    /// [`Self::learn`].
    pub fn spec(&self, code: &str) -> Option<SegmentSpec> {
        let known = self.0.get(code).map(|code| code.spec());
        known.or_else(|| self.settings().on_demand(code).ok())
    }

    /// Returns a handle that issues numbers of one code without looking up its name.
    ///
    /// # Errors
    ///
    /// When this node does not know the code and may not create it. [`Self::next_ids`] also finds
    /// codes that operators have just created.
    pub fn handle(&self, code: &str) -> Result<SegmentHandle, IssueError> {
        Ok(SegmentHandle::new(self.code(None, code)?))
    }

    /// Returns a lower bound of the last of `count` further numbers of this code, as far as this
    /// node knows; `None` if the code was never used on this node.
    pub fn last_at_least(&self, code: &str, count: u32) -> Option<Id> {
        let code = self.0.get(code)?;
        let last = code.cursor.last_of_next(u64::from(count)).unwrap_or(0);
        Id::new(last.max(code.spec().first()))
    }

    /// Returns how many reserved numbers of this code are left on this node.
    pub fn in_hand(&self, code: &str) -> u64 {
        self.0.get(code).map_or(0, |code| code.cursor.left())
    }

    fn code(
        &self,
        client: Option<&(dyn Fn() -> u64 + Sync)>,
        name: &str,
    ) -> Result<Arc<Code>, IssueError> {
        if !is_valid_code(name) {
            return Err(IssueError::Refused(ClaimError::InvalidCode(name.to_owned())));
        }
        self.0.get_or_create(client, name)
    }

    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        self.0.namespace.name()
    }

    /// Returns the settings of the namespace.
    pub fn settings(&self) -> &super::SegmentSettings {
        &self.0.namespace.settings
    }

    /// Reads the settings of the managed codes now, rather than at the next poll.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn refresh(&self) -> Result<(), raindrop_store::StoreError> {
        self.0.refresh(Purpose::Claim).await
    }

    /// Returns the names of the configured codes.
    pub fn codes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.namespace.settings.codes.keys().map(String::as_str)
    }

    /// Returns the names of the configured series.
    pub fn series(&self) -> impl Iterator<Item = String> {
        self.settings().series.keys().map(|series| name_of_series(series))
    }

    /// Returns whether any other code is created on demand.
    pub fn makes_codes(&self) -> bool {
        self.0.namespace.settings.auto_create.is_some()
    }

    /// Takes over settings of managed codes as if the store had returned them.
    #[cfg(all(test, not(feature = "planted")))]
    pub(crate) fn apply(&self, managed: &[raindrop_store::ManagedCode]) {
        self.0.apply(managed);
    }

    /// Returns a snapshot of the namespace.
    pub fn status(&self) -> SegmentStatus {
        self.0.status()
    }

    /// Waits until tables and codes were created, or until the keeper has ended.
    pub async fn prepared(&self) {
        let mut reports = self.0.namespace.shared.report.subscribe();
        // The sender lives as long as this issuer.
        let _ = reports.wait_for(|report| report.prepared || report.ended).await;
    }
}
