//! Issues IDs of one code, without looking up its name.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    id::Id,
    issue::{Blocks, ClaimError, CodeHandle, Generator, Run},
};

use super::issuer::Issuer;
use crate::support::{error::IssueError, observer::Observer};

/// Issues IDs of one code from the keeper's lease. An ID takes a few nanoseconds if the keeper's
/// clock keeps a [recent](raindrop_core::clock::Clock::recent) reading, such as
/// [`CachedClock`](raindrop_core::clock::CachedClock).
///
/// A handle belongs to one thread or task at a time; others take a clone. The handle reports single
/// IDs to the [`Observer`] from time to time and when it is dropped, not one by one.
#[derive(Clone, Debug)]
pub struct IssuerHandle {
    issuer: Issuer,
    code: Box<str>,
    handle: CodeHandle<Arc<Generator>>,
    unreported: Unreported,
}

/// Issues IDs of one code that are claimed a block at a time; see [`Blocks`].
#[derive(Debug)]
pub struct IssuerBlocks {
    blocks: Blocks<Arc<Generator>>,
    unreported: Unreported,
}

/// Counts IDs that are not yet reported to the observer. Reporting each one would cost as much as
/// issuing it.
#[derive(Debug)]
struct Unreported {
    observer: Arc<dyn Observer>,
    count: u64,
}

impl Unreported {
    fn report(&mut self) {
        if self.count > 0 {
            self.observer.ids_issued(std::mem::take(&mut self.count));
        }
    }
}

impl Clone for Unreported {
    fn clone(&self) -> Self {
        Self { observer: Arc::clone(&self.observer), count: 0 }
    }
}

impl Drop for Unreported {
    fn drop(&mut self) {
        self.report();
    }
}

impl Issuer {
    /// Returns a handle that issues IDs of one code without looking up its name.
    ///
    /// # Errors
    ///
    /// When the code is not a valid name, or is not served.
    pub fn handle(&self, code: &str) -> Result<IssuerHandle, IssueError> {
        IssuerHandle::new(self.clone(), code)
    }
}

impl IssuerHandle {
    pub(crate) fn new(issuer: Issuer, code: &str) -> Result<Self, IssueError> {
        let generator = Arc::clone(&issuer.state.generator);
        let handle = CodeHandle::new(generator, code).map_err(IssueError::Refused)?;
        let unreported = Unreported { observer: Arc::clone(&issuer.state.observer), count: 0 };
        Ok(Self { issuer, code: code.into(), handle, unreported })
    }

    /// Issues one ID of the present tick, if that is possible at once. After `None`,
    /// [`Self::next_ids`] can wait for one, or return the reason.
    #[inline]
    pub fn try_next_id(&mut self) -> Option<Id> {
        let id = match self.handle.take_quickly() {
            Some(id) => id,
            None => self.claim_one()?,
        };
        self.unreported.count += 1;
        Some(id)
    }

    #[cold]
    fn claim_one(&mut self) -> Option<Id> {
        self.unreported.report();
        let mut claim = self.handle.claim_at_once(1).ok()?;
        self.issuer.report(&claim, 1.into());
        claim.ids.next()
    }

    /// Issues `count` IDs, ascending. Waits until the tick of the last one has begun, for at most
    /// [`IssueSettings::max_wait`](raindrop_core::issue::IssueSettings::max_wait).
    ///
    /// # Errors
    ///
    /// See [`IssueError`]. No ID was issued then.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after it claimed IDs, no caller ever gets them.
    pub async fn next_ids(&mut self, count: u32) -> Result<Run, IssueError> {
        let claim = match self.handle.claim(count) {
            Ok(claim) => claim,
            Err(error) => self.issuer.claim_again(None, &self.code, count.into(), error).await?,
        };
        self.issuer.report_and_wait(&claim, count.into()).await?;
        self.unreported.count += u64::from(count);
        self.unreported.report();
        Ok(claim.ids)
    }

    /// Converts this handle to one that claims `size` IDs at a time and issues them one by one.
    pub fn into_blocks(self, size: u32) -> IssuerBlocks {
        IssuerBlocks { blocks: self.handle.into_blocks(size), unreported: self.unreported }
    }
}

impl IssuerBlocks {
    /// Issues one ID.
    ///
    /// # Errors
    ///
    /// When a new block is needed and cannot be claimed at once; see [`ClaimError`].
    #[inline]
    pub fn next_id(&mut self) -> Result<Id, ClaimError> {
        let id = match self.blocks.take_quickly() {
            Some(id) => id,
            None => self.take_slowly()?,
        };
        self.unreported.count += 1;
        Ok(id)
    }

    #[cold]
    fn take_slowly(&mut self) -> Result<Id, ClaimError> {
        if let Some(id) = self.blocks.take_by_clock() {
            return Ok(id);
        }
        self.unreported.report();
        self.blocks.take_after_refill()
    }

    /// Sets the age at which a block is dropped, in whole milliseconds; see [`Blocks`].
    #[must_use]
    pub fn with_max_age(self, max_age: Duration) -> Self {
        Self { blocks: self.blocks.with_max_age(max_age), unreported: self.unreported }
    }
}
