//! The background tasks of the service, by name.

use crate::keeper::KeeperTask;

/// A background task, as log lines and metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    PublicListener,
    AdminListener,
    LeaseKeeper,
    SegmentKeeper,
    SegmentRefill,
    TokenReload,
    Announcement,
    StopSignal,
}

impl Task {
    pub(super) const ALL: [Self; 8] = [
        Self::PublicListener,
        Self::AdminListener,
        Self::LeaseKeeper,
        Self::SegmentKeeper,
        Self::SegmentRefill,
        Self::TokenReload,
        Self::Announcement,
        Self::StopSignal,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PublicListener => "public_listener",
            Self::AdminListener => "admin_listener",
            Self::LeaseKeeper => "lease_keeper",
            Self::SegmentKeeper => "segment_keeper",
            Self::SegmentRefill => "segment_refill",
            Self::TokenReload => "token_reload",
            Self::Announcement => "announcement",
            Self::StopSignal => "stop_signal",
        }
    }
}

impl From<KeeperTask> for Task {
    fn from(task: KeeperTask) -> Self {
        match task {
            KeeperTask::Lease => Self::LeaseKeeper,
            KeeperTask::Segments => Self::SegmentKeeper,
            KeeperTask::Refill => Self::SegmentRefill,
        }
    }
}
