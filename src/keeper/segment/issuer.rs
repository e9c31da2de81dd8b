//! Issues numbers from the blocks in hand.

use std::sync::Arc;

use super::{
    SegmentHandle, SegmentStatus,
    code::Code,
    handle::claim,
    shared::{Namespace, Shared},
};
use crate::{
    core::{code::is_valid_code, id::Id, issue::ClaimError, segment::Numbers},
    keeper::IssueError,
};

/// Issues numbers of one segment namespace; cheap to clone.
#[derive(Clone, Debug)]
pub struct SegmentIssuer {
    shared: Arc<Shared>,
    namespace: Arc<Namespace>,
}

impl SegmentIssuer {
    pub(super) fn all(shared: &Arc<Shared>) -> Vec<Self> {
        let issuer = |namespace: &Arc<Namespace>| Self {
            shared: Arc::clone(shared),
            namespace: Arc::clone(namespace),
        };
        shared.namespaces.iter().map(issuer).collect()
    }

    /// One number of this code.
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    pub async fn next_id(&self, code: &str) -> Result<Id, IssueError> {
        let mut numbers = self.next_ids(code, 1).await?;
        Ok(numbers.next().expect("a claim of one has one number"))
    }

    /// `count` numbers of this code, ascending. Waits only while no block is in hand, at most
    /// [`SegmentSettings::max_wait`](super::SegmentSettings::max_wait).
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    ///
    /// # Cancel safety
    ///
    /// Numbers that were claimed when the future is dropped are never issued to anybody.
    pub async fn next_ids(&self, code: &str, count: u32) -> Result<Numbers, IssueError> {
        let code = self.code(code)?;
        claim(&self.shared, &self.namespace, &code, count).await
    }

    /// One code, whose numbers can be had without looking up its name.
    ///
    /// # Errors
    ///
    /// When there is no such code and none may be made.
    pub fn handle(&self, code: &str) -> Result<SegmentHandle, IssueError> {
        Ok(SegmentHandle::new(&self.shared, &self.namespace, self.code(code)?))
    }

    /// A number that the last of `count` further numbers of this code will not be below, as far as
    /// this node knows; `None` when the code was never used here.
    pub fn last_at_least(&self, code: &str, count: u32) -> Option<Id> {
        let code = self.namespace.known(code)?;
        let last = code.cursor.last_of_next(u64::from(count)).unwrap_or(0);
        Id::new(last.max(code.spec.first()))
    }

    fn code(&self, name: &str) -> Result<Arc<Code>, IssueError> {
        if !is_valid_code(name) {
            return Err(IssueError::Refused(ClaimError::InvalidCode(name.to_owned())));
        }
        self.namespace.code(name)
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace.settings.namespace
    }

    /// The names of its configured codes.
    pub fn codes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.namespace.settings.codes.keys().map(String::as_str)
    }

    /// Whether further codes are made on demand.
    pub fn makes_codes(&self) -> bool {
        self.namespace.settings.auto_create.is_some()
    }

    /// How the namespace is doing.
    pub fn status(&self) -> SegmentStatus {
        self.shared.status(&self.namespace)
    }

    /// Waits until tables and codes are made.
    pub async fn prepared(&self) {
        let mut reports = self.shared.report.subscribe();
        // The sender lives in what is shared.
        let _ = reports.wait_for(|report| report.prepared).await;
    }
}
