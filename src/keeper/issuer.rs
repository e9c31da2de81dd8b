//! Issues IDs from the keeper's lease.

use super::{IssueError, Status};
use crate::core::{id::Id, issue::Run, layout::Layout};

/// Issues IDs of one namespace; cheap to clone.
#[derive(Clone, Debug)]
pub struct Issuer {}

impl Issuer {
    /// One ID of this code.
    pub async fn next_id(&self, _code: &str) -> Result<Id, IssueError> {
        todo!()
    }

    /// `count` IDs of this code, ascending.
    pub async fn next_ids(&self, _code: &str, _count: u32) -> Result<Run, IssueError> {
        todo!()
    }

    /// The layout of the namespace.
    pub fn layout(&self) -> &Layout {
        todo!()
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        todo!()
    }

    /// How the namespace is doing.
    pub fn status(&self) -> Status {
        todo!()
    }

    /// Waits until a lease with range is held, or the keeper is shutting down.
    pub async fn leased(&self) -> Status {
        todo!()
    }
}
