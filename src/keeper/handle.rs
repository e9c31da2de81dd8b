//! IDs of one code, without looking up its name.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use super::{IssueError, Issuer, Observer, shared::Shared};
use crate::core::{
    id::Id,
    issue::{Blocks, ClaimError, CodeHandle, Generator, Run},
};

/// Issues IDs of one code from the keeper's lease: a few nanoseconds each, if the keeper was
/// given a clock that keeps a [recent](crate::core::clock::Clock::recent) reading, such as
/// [`CachedClock`](crate::core::clock::CachedClock).
///
/// A handle belongs to one thread or task at a time; others take a clone. Single IDs are reported
/// to the [`Observer`] from time to time and when the handle is dropped, not one by one.
#[derive(Clone, Debug)]
pub struct IssuerHandle {
    issuer: Issuer,
    code: Box<str>,
    handle: CodeHandle<Leased>,
    issued: Issued,
}

/// Issues IDs of one code that are claimed a block at a time; see [`Blocks`].
#[derive(Debug)]
pub struct IssuerBlocks {
    blocks: Blocks<Leased>,
    issued: Issued,
}

/// The generator of a lease.
#[derive(Clone)]
struct Leased(Arc<Shared>);

impl Deref for Leased {
    type Target = Generator;

    fn deref(&self) -> &Generator {
        &self.0.generator
    }
}

impl fmt::Debug for Leased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leased").field(&self.0.namespace).finish()
    }
}

/// Counts IDs that were not reported yet: an atomic count of each would cost as much as the ID.
#[derive(Debug)]
struct Issued {
    observer: Arc<dyn Observer>,
    count: u64,
}

impl Issued {
    fn report(&mut self) {
        if self.count > 0 {
            self.observer.ids_issued(std::mem::take(&mut self.count));
        }
    }
}

impl Clone for Issued {
    fn clone(&self) -> Self {
        Self { observer: Arc::clone(&self.observer), count: 0 }
    }
}

impl Drop for Issued {
    fn drop(&mut self) {
        self.report();
    }
}

impl IssuerHandle {
    pub(super) fn new(issuer: Issuer, code: &str) -> Result<Self, IssueError> {
        let leased = Leased(Arc::clone(&issuer.shared));
        let handle = CodeHandle::new(leased, code).map_err(IssueError::Refused)?;
        let issued = Issued { observer: Arc::clone(&issuer.shared.observer), count: 0 };
        Ok(Self { issuer, code: code.into(), handle, issued })
    }

    /// One ID of the present tick, if it can be had at once. `None` means that
    /// [`Self::next_ids`] can wait for one, or tell why there is none.
    #[inline]
    pub fn try_next_id(&mut self) -> Option<Id> {
        let id = match self.handle.take_quickly() {
            Some(id) => id,
            None => self.claim_one()?,
        };
        self.issued.count += 1;
        Some(id)
    }

    #[cold]
    fn claim_one(&mut self) -> Option<Id> {
        self.issued.report();
        let mut claim = self.handle.claim_at_once(1).ok()?;
        self.issuer.report(&claim);
        claim.ids.next()
    }

    /// `count` IDs, ascending; waits until the last one's tick has begun, at most
    /// [`IssueSettings::max_wait`](crate::core::issue::IssueSettings::max_wait).
    ///
    /// # Errors
    ///
    /// See [`IssueError`]; nothing was issued then.
    ///
    /// # Cancel safety
    ///
    /// IDs that were claimed when the future is dropped are never issued to anybody.
    pub async fn next_ids(&mut self, count: u32) -> Result<Run, IssueError> {
        let claim = match self.handle.claim(count) {
            Ok(claim) => claim,
            Err(error) => self.issuer.claim_again(&self.code, count, error).await?,
        };
        self.issuer.due(&claim).await;
        self.issued.count += u64::from(count);
        self.issued.report();
        Ok(claim.ids)
    }

    /// Issues IDs one by one that are claimed `size` at a time.
    pub fn into_blocks(self, size: u32) -> IssuerBlocks {
        IssuerBlocks { blocks: self.handle.into_blocks(size), issued: self.issued }
    }
}

impl IssuerBlocks {
    /// One ID.
    ///
    /// # Errors
    ///
    /// When a new block is needed and cannot be claimed at once; see [`ClaimError`].
    #[inline]
    pub fn next_id(&mut self) -> Result<Id, ClaimError> {
        let id = match self.blocks.take_quickly() {
            Some(id) => id,
            None => {
                self.issued.report();
                self.blocks.take_after_refill()?
            }
        };
        self.issued.count += 1;
        Ok(id)
    }

    /// Lets blocks grow so old, in whole milliseconds.
    #[must_use]
    pub fn with_max_age(self, max_age: Duration) -> Self {
        Self { blocks: self.blocks.with_max_age(max_age), issued: self.issued }
    }
}
