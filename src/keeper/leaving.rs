//! Giving a row back.

#[cfg(raindrop_planted)]
use crate::core::planted::{Bug, planted};
use crate::{
    core::lease::{HeldLanes, Purpose, Resolution, Tenure},
    store::StoreError,
};

use super::{
    context::{Context, Sent, Swapped},
    hold::Held,
};

/// A row that is being given back. It has no grant: whatever it learns of its writes, nothing is
/// issued on it any more.
#[derive(Debug)]
pub(super) struct Leaving {
    tenure: Tenure<Sent>,
    lanes: HeldLanes,
    /// Where the next lease of the present lane may begin.
    mark: u64,
    released: bool,
    /// Up to where it was leased.
    #[cfg(raindrop_planted)]
    limit: u64,
}

impl Leaving {
    /// A row that was held. Its grant is sealed, and dead whatever the store answers.
    pub(super) fn of(held: Held) -> Self {
        let Held { tenure, grant, lanes, .. } = held;
        let mut leaving = Self {
            tenure,
            lanes,
            mark: grant.seal(),
            released: false,
            #[cfg(raindrop_planted)]
            limit: grant.limit(),
        };
        leaving.adopt_visible();
        leaving
    }

    /// A row that an acquire of ours may have taken, or may still take.
    pub(super) fn of_search(tenure: Tenure<Sent>) -> Self {
        // Whatever the lane: its mark stays as it is.
        let (lanes, mark) = (HeldLanes::on(0), tenure.marks()[0]);
        let mut leaving = Self {
            tenure,
            lanes,
            mark,
            released: false,
            #[cfg(raindrop_planted)]
            limit: mark,
        };
        leaving.adopt_visible();
        leaving
    }

    pub(super) const fn worker(&self) -> u64 {
        self.tenure.worker()
    }

    /// Writes the row free, with true marks. Whether it is settled: free, or known not to be ours
    /// any more.
    pub(super) async fn release(&mut self, context: &mut Context) -> Result<bool, StoreError> {
        if self.tenure.is_unresolved() {
            match context.resolve(&mut self.tenure).await? {
                Resolution::Unchanged => {}
                Resolution::Visible => {
                    self.adopt_visible();
                    #[cfg(raindrop_planted)]
                    self.touch_generator(context);
                }
                Resolution::Lost | Resolution::Vanished => return Ok(true),
            }
        }
        if self.released {
            return Ok(true);
        }
        let write = context.release_write(&self.tenure, &self.lanes, self.mark);
        let sent = context.releasing();
        match context.swap(&mut self.tenure, write, sent).await {
            Swapped::Done(_) => Ok(true),
            Swapped::Refused => Ok(false),
            Swapped::Unknown(error) => Err(error),
        }
    }

    /// Takes note of a write that turned out to stand in the row.
    fn adopt_visible(&mut self) {
        let Some(visible) = self.tenure.visible() else { return };
        self.lanes.confirmed(&visible.write.marks);
        match visible.purpose.purpose {
            // Nothing was issued on the lane that it took.
            Purpose::Lease(lease) => {
                // Its repetition may be seen, too.
                if lease.lane != self.lanes.present() {
                    self.lanes.moved_to(lease.lane, self.mark);
                }
                self.mark = lease.start;
            }
            Purpose::Renew { .. } => {}
            // Nothing depends on it: should the store lose it, the row comes free by its ttl.
            Purpose::Release => self.released = true,
        }
    }
}

/// What only planted bugs do.
#[cfg(raindrop_planted)]
impl Leaving {
    /// Uses a lane that was leased too late, and seals its grant.
    fn touch_generator(&self, context: &Context) {
        let visible = self.tenure.visible().map(|attempt| attempt.purpose.purpose);
        if let Some(Purpose::Lease(lease)) = visible
            && planted(Bug::LeavingTouchesGenerator)
        {
            let grant = context.grant(self.tenure.worker(), lease);
            grant.seal();
            context.shared.generator.replace_grant(Some(grant));
        }
    }

    /// Goes on above the sealed mark, up to the limit that was.
    pub(super) fn revive(&mut self, context: &Context, forgets: bool) -> Held {
        let (lane, start, limit) = (self.lanes.present(), self.mark, self.limit);
        let lease = crate::core::lease::Lease { lane, start, limit };
        let mut tenure = self.tenure.clone();
        if forgets {
            tenure.discard_unresolved();
        }
        Held::new(context, tenure, lease, context.stamp())
    }
}
