//! Every worker id of a namespace, for `/cluster?all=true` and `raindrop workers`.

use serde::{Deserialize, Serialize};

use crate::{
    core::{
        instant::format_unix_ms,
        layout::Layout,
        lease::{Row, first_due},
    },
    keeper::KeeperSettings,
    store::{LayoutRecord, ListedRow},
};

/// Whether a worker id can be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WorkerState {
    /// A node holds it: its lease has not expired by the store's clock.
    Held,
    /// A node used it, and it can be leased.
    Free,
    /// A node used it, and no lane can be leased before a later instant.
    Waiting,
    /// No node ever used it, and it can be leased; after a fail-over, from a later instant on.
    Unused,
}

/// A worker id as the store has it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Worker {
    pub(crate) worker_id: u64,
    pub(crate) lane: usize,
    pub(crate) state: WorkerState,
    /// The first instant at which a lane can be leased, if that is to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<String>,
    /// The width and value of the reserved bits that the row belongs to.
    reserved: String,
    pub(crate) holder: Option<String>,
    renewed: Option<String>,
    pub(crate) expires: Option<String>,
    /// The mark of each lane: an instant, or a position if the layout is not known; null if no node
    /// has used the lane.
    pub(crate) marks: Vec<Option<String>>,
}

/// The worker ids of a namespace, each that has a row.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct WorkerList {
    /// The recorded layout, if this configuration has the same.
    layout: Option<String>,
    pub(crate) held: u64,
    pub(crate) free: u64,
    pub(crate) waiting: u64,
    /// The number of unused worker ids: in the configured range, if this configuration has the
    /// recorded layout; otherwise among the rows in the store.
    pub(crate) unused: u64,
    pub(crate) workers: Vec<Worker>,
}

/// Returns whether the store has recorded the layout of these settings. If so, the rows of the
/// namespace get the marks that count in the present epoch.
pub(crate) fn has_layout(
    KeeperSettings { namespace, layout, .. }: &KeeperSettings,
    record: Option<&LayoutRecord>,
    rows: &mut [ListedRow],
) -> bool {
    let is_ours = |record: &&LayoutRecord| record.canonical == layout.canonical();
    let Some(LayoutRecord { history, .. }) = record.filter(is_ours) else { return false };
    for ListedRow { row, .. } in rows.iter_mut().filter(|row| row.namespace == *namespace) {
        row.marks = history.marks(layout, row.epoch, &row.marks);
    }
    true
}

impl WorkerList {
    /// Describes the rows of a namespace. The settings are `None` where [`has_layout`] is false.
    pub(crate) fn of(
        namespace: &str,
        rows: &[ListedRow],
        settings: Option<&KeeperSettings>,
        now_ms: i64,
    ) -> Self {
        let layout = settings.map(|settings| &settings.layout);
        let mut list = Self { layout: layout.map(Layout::canonical), ..Self::default() };
        let of_namespace = || rows.iter().filter(|row| row.namespace == namespace);
        for listed in of_namespace() {
            let layout = layout.filter(|layout| listed.row.marks.lanes() == layout.lanes());
            let worker = Worker::new(listed, layout, now_ms);
            *match worker.state {
                WorkerState::Held => &mut list.held,
                WorkerState::Free => &mut list.free,
                WorkerState::Waiting => &mut list.waiting,
                WorkerState::Unused => &mut list.unused,
            } += 1;
            list.workers.push(worker);
        }
        if let Some(settings) = settings {
            // Rows of large ranges are created when they are needed.
            list.unused = unused_of_range(of_namespace(), settings);
        }
        list
    }
}

/// Returns how many worker ids of the configured range no node has used yet.
fn unused_of_range<'a>(
    rows: impl Iterator<Item = &'a ListedRow>,
    KeeperSettings { layout, min_worker, max_worker, .. }: &KeeperSettings,
) -> u64 {
    let reserved_key = layout.reserved_key();
    let is_used = |listed: &&ListedRow| {
        listed.reserved_key == reserved_key
            && (*min_worker..=*max_worker).contains(&listed.row.worker)
            && !listed.row.was_never_written()
    };
    (max_worker - min_worker + 1).saturating_sub(rows.filter(is_used).count() as u64)
}

impl Worker {
    pub(crate) fn new(
        ListedRow { row, reserved_key, .. }: &ListedRow,
        layout: Option<&Layout>,
        now_ms: i64,
    ) -> Self {
        let mark = |mark| match layout {
            Some(_) if mark == 0 => None,
            Some(layout) => Some(format_unix_ms(layout.start_of_tick_ms(layout.tick_of(mark)))),
            None => Some(mark.to_string()),
        };
        let due_ms = layout.and_then(|layout| first_due(layout, std::slice::from_ref(row)));
        let due_ms = due_ms.filter(|due_ms| row.free && *due_ms > now_ms);
        let was_used = !row.was_never_written();
        Self {
            worker_id: row.worker,
            lane: row.lane,
            state: state(row, due_ms.is_some()),
            not_before: due_ms.map(format_unix_ms),
            reserved: reserved_key.clone(),
            holder: was_used.then(|| row.holder.clone()),
            renewed: was_used.then(|| format_unix_ms(row.heartbeat_ms)),
            expires: (!row.free).then(|| format_unix_ms(row.expires_ms)),
            marks: row.marks.iter().map(mark).collect(),
        }
    }
}

fn state(row: &Row, waits: bool) -> WorkerState {
    if !row.free {
        WorkerState::Held
    } else if row.was_never_written() {
        WorkerState::Unused
    } else if waits {
        WorkerState::Waiting
    } else {
        WorkerState::Free
    }
}
