//! The background tasks of the service, as a label.

use crate::keeper::{KeeperTask, labels};

labels! {
    /// A background task.
    pub(in crate::server) Task {
        PublicListener = "public_listener",
        AdminListener = "admin_listener",
        LeaseKeeper = "lease_keeper",
        SegmentKeeper = "segment_keeper",
        SegmentRefill = "segment_refill",
        TokenReload = "token_reload",
        CertificateReload = "certificate_reload",
        Announcement = "announcement",
        History = "history",
        StopSignal = "stop_signal",
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
