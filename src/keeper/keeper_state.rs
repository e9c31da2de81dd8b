//! The state that a namespace's task shares with its issuers.

use std::{
    sync::Arc,
    task::{Wake, Waker},
};

use tokio::sync::{Notify, watch};

use super::{LeaseView, Observer, Status, UnavailableReason};
use crate::core::{
    clock::Clock,
    issue::{Generator, Grant},
    layout::Layout,
};

/// Shared by the task and every [`Issuer`](super::Issuer) of a namespace.
#[derive(Debug)]
pub(super) struct KeeperState {
    pub(super) namespace: String,
    pub(super) generator: Arc<Generator>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Arc<dyn Observer>,
    /// Notified of every change that may let a refused claim succeed.
    pub(super) report: watch::Sender<Report>,
}

/// The keeper's latest findings.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) reason: Option<UnavailableReason>,
    pub(super) clock_ahead_ms: i64,
    pub(super) workers_held: u64,
    pub(super) workers_free: u64,
}

impl Default for Report {
    fn default() -> Self {
        let reason = Some(UnavailableReason::Starting);
        Self { reason, clock_ahead_ms: 0, workers_held: 0, workers_free: 0 }
    }
}

impl KeeperState {
    pub(super) fn layout(&self) -> &Layout {
        self.generator.layout()
    }

    /// Returns the first position of the present tick.
    pub(super) fn present(&self) -> u64 {
        let layout = self.layout();
        layout.first_position(layout.tick_clamped(self.clock.now_ms()))
    }

    /// Sets why no ID can be issued; notifies waiting claims if that is a change. A shutdown is
    /// final.
    pub(super) fn set_reason(&self, reason: Option<UnavailableReason>) {
        self.report.send_if_modified(|report| {
            let is_change =
                report.reason != reason && report.reason != Some(UnavailableReason::ShuttingDown);
            if is_change {
                report.reason = reason;
            }
            is_change
        });
    }

    /// Notifies waiting claims that the grant or its limit changed, and clears the reason.
    pub(super) fn announce_range(&self) {
        self.set_reason(None);
        self.report.send_modify(|_| ());
    }

    pub(super) fn status(&self) -> Status {
        let report = self.report.borrow().clone();
        let layout = self.layout();
        let grant = self.generator.grant();
        let in_range = layout.tick_in_range(self.clock.now_ms()).is_some();
        Status {
            lease: grant.as_ref().map(|grant| self.view(grant)),
            reason: match report.reason {
                None if !in_range => Some(UnavailableReason::ClockOutOfRange),
                reason => reason,
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

/// Wakes the keeper's task from inside a claim, which knows of no runtime.
struct NotifyWaker(Arc<Notify>);

impl Wake for NotifyWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

pub(super) fn waker(notify: &Arc<Notify>) -> Waker {
    Waker::from(Arc::new(NotifyWaker(Arc::clone(notify))))
}
