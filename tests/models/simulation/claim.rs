//! A claim that is under way.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use raindrop_core::{id::Id, planted::cursors_made};
use raindrop_keeper::{IssueError, Issuer, IssuerHandle};
use tokio::time::Instant;

use crate::{check::AnsweredBefore, model::CODES, store::Writer};

/// A claim, and the state of the node when the claim began.
pub(crate) struct Claim {
    pub(crate) writer: Writer,
    pub(crate) code: usize,
    pub(crate) began: Instant,
    pub(crate) answered_before: AnsweredBefore,
    /// The limits that the node knew.
    pub(crate) limits: BTreeMap<(u64, u64), u64>,
    /// The highest reading of the clock since the claim began, as far as the simulation read it.
    pub(crate) highest_ms: i64,
    /// How many cursors the claim created.
    pub(crate) cursors: u64,
    /// Whether a handle answered by its quick way.
    pub(crate) quick: bool,
    future: Pin<Box<dyn Future<Output = Answer> + Send>>,
}

/// The IDs of a claim, and whether a handle gave them.
pub(crate) type Answer = Result<(Vec<Id>, bool), IssueError>;

/// A handle of one code, which all claims of a process for single IDs try first.
pub(crate) type SharedHandle = Arc<Mutex<IssuerHandle>>;

impl Claim {
    pub(crate) fn new(
        writer: &Writer,
        issuer: &Issuer,
        handle: Option<SharedHandle>,
        code: usize,
        count: u32,
        answered_before: AnsweredBefore,
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
            quick: false,
            future: Box::pin(async move {
                // The handle is in use while its clock is read and other claims are served.
                let handle = handle.as_ref().and_then(|handle| handle.try_lock().ok());
                if let Some(id) = handle.and_then(|mut handle| handle.try_next_id()) {
                    return Ok((vec![id], true));
                }
                let ids = issuer.next_ids(CODES[code], count).await?;
                Ok((ids.collect(), false))
            }),
        }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        // A first reading may sleep, and a second one come after it.
        let clock = &self.writer.clock;
        self.highest_ms = self.highest_ms.max(clock.peek_ms());
        let (before, readings) = (cursors_made(), clock.readings());
        let answer = self.future.as_mut().poll(context);
        if clock.readings() > readings {
            self.highest_ms = self.highest_ms.max(clock.last_ms());
        } else {
            self.quick = matches!(answer, Poll::Ready(Ok(_)));
        }
        self.cursors += cursors_made() - before;
        answer
    }
}
