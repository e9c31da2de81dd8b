//! A claim that is under way.

use std::{
    collections::BTreeMap,
    pin::Pin,
    task::{Context, Poll},
};

use raindrop::{
    core::{issue::Run, policy::Policy},
    keeper::{IssueError, Issuer},
};
use tokio::time::Instant;

use crate::{check::LastOnLane, model::CODES, planted::cursors_made, store::Writer};

/// A claim, and what was known when it began.
pub(crate) struct Claim {
    pub(crate) writer: Writer,
    pub(crate) code: usize,
    pub(crate) began: Instant,
    /// What its node had been answered for its code.
    pub(crate) answered_before: LastOnLane,
    /// Up to where its node knew that it may issue.
    pub(crate) limits: BTreeMap<(u64, u64), u64>,
    /// The clock's highest reading since it began, as far as it was looked at.
    pub(crate) highest_ms: i64,
    /// How many cursors it made.
    pub(crate) cursors: u64,
    future: Pin<Box<dyn Future<Output = Result<Run, IssueError>> + Send>>,
}

impl Claim {
    pub(crate) fn new<P: Policy>(
        writer: &Writer,
        issuer: &Issuer<P>,
        code: usize,
        count: u32,
        answered_before: LastOnLane,
        limits: BTreeMap<(u64, u64), u64>,
    ) -> Self {
        let issuer = issuer.clone();
        Self {
            writer: writer.clone(),
            code,
            began: Instant::now(),
            answered_before,
            limits,
            highest_ms: i64::MIN,
            cursors: 0,
            future: Box::pin(async move { issuer.next_ids(CODES[code], count).await }),
        }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Run, IssueError>> {
        // It reads the clock only while it is polled; what a reading sleeps comes after it.
        self.highest_ms = self.highest_ms.max(self.writer.clock.peek_ms());
        let before = cursors_made();
        let answer = self.future.as_mut().poll(context);
        self.cursors += cursors_made() - before;
        answer
    }
}
