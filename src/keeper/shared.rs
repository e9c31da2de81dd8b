//! What the keeper's task and its issuers have in common.

use std::{
    sync::Arc,
    task::{Wake, Waker},
};

use tokio::sync::{Notify, watch};

use super::{LeaseView, Observer, Status, Trouble};
use crate::core::{
    clock::Clock,
    issue::{Generator, Grant},
    layout::Layout,
};

/// Shared by the task and every [`Issuer`](super::Issuer) of a namespace.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) namespace: String,
    pub(super) generator: Generator,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Arc<dyn Observer>,
    /// Every change that may let a refused claim succeed is sent here.
    pub(super) report: watch::Sender<Report>,
}

/// What the keeper last found out.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) trouble: Option<Trouble>,
    pub(super) clock_ahead_ms: i64,
    pub(super) workers_held: u64,
    pub(super) workers_free: u64,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            trouble: Some(Trouble::Starting),
            clock_ahead_ms: 0,
            workers_held: 0,
            workers_free: 0,
        }
    }
}

impl Shared {
    pub(super) fn layout(&self) -> &Layout {
        self.generator.layout()
    }

    /// The first position of the present tick.
    pub(super) fn present(&self) -> u64 {
        let layout = self.layout();
        layout.first_position(layout.tick_clamped(self.clock.now_ms()))
    }

    /// Sets what is wrong; tells the issuers when that changes anything.
    pub(super) fn set_trouble(&self, trouble: Option<Trouble>) {
        self.report.send_if_modified(|report| {
            // Nothing gets better while shutting down.
            let changed =
                report.trouble != trouble && report.trouble != Some(Trouble::ShuttingDown);
            if changed {
                report.trouble = trouble;
            }
            changed
        });
    }

    /// Tells waiting claims that the grant or its limit changed, and that nothing is wrong.
    pub(super) fn announce_range(&self) {
        self.report.send_modify(|report| {
            if report.trouble != Some(Trouble::ShuttingDown) {
                report.trouble = None;
            }
        });
    }

    pub(super) fn status(&self) -> Status {
        let report = self.report.borrow().clone();
        let layout = self.layout();
        let grant = self.generator.grant();
        let in_range = layout.tick_in_range(self.clock.now_ms()).is_some();
        Status {
            lease: grant.as_ref().map(|grant| self.view(grant)),
            trouble: match report.trouble {
                None if !in_range => Some(Trouble::ClockOutOfRange),
                trouble => trouble,
            },
            clock_ahead_ms: report.clock_ahead_ms,
            workers_held: report.workers_held,
            workers_free: report.workers_free,
            codes: grant.map_or(0, |grant| grant.codes()),
        }
    }

    fn view(&self, grant: &Grant) -> LeaseView {
        let layout = self.layout();
        let limit = grant.limit();
        let last_tick = layout.tick_of(limit.saturating_sub(1));
        LeaseView {
            worker: grant.worker(),
            lane: grant.lane(),
            valid_until_ms: layout.start_of_tick_ms(last_tick + 1),
            has_range: !grant.is_sealed() && self.present().max(grant.highest_next()) < limit,
        }
    }
}

/// Wakes the keeper's task from inside a claim, where there is no runtime to know of.
struct Bell(Arc<Notify>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

pub(super) fn waker(notify: &Arc<Notify>) -> Waker {
    Waker::from(Arc::new(Bell(Arc::clone(notify))))
}
