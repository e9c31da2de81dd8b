//! `raindrop workers`: lists worker ids, as a table or as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::WorkersArguments;
use crate::{
    cli::{
        arguments::keeper_of,
        failure::Failure,
        output::{error, print, print_json, table},
    },
    config::Config,
    core::{
        clock::Clock,
        instant::format_unix_ms,
        layout::Layout,
        lease::{Row, first_due},
        visible::visible,
    },
    keeper::KeeperSettings,
    server::unknown_namespace,
    store::{LayoutRecord, ListedRow, Store, StoreError},
};

const HEADINGS: [&str; 7] = ["NAMESPACE", "WORKER", "LANE", "STATE", "EXPIRES", "MARKS", "HOLDER"];

/// Which worker ids are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
#[group(multiple = false)]
pub(super) struct Selection {
    /// Also list each worker id that was never used.
    #[arg(long)]
    all: bool,
    /// List only worker ids that a node holds.
    #[arg(long)]
    held: bool,
    /// List only worker ids that can be leased now, those that were never used included.
    #[arg(long)]
    free: bool,
}

impl Selection {
    pub(super) const fn is_default(self) -> bool {
        !(self.all || self.held || self.free)
    }

    const fn shows(self, worker: &Worker) -> bool {
        match worker.state {
            WorkerState::Held => !self.free,
            WorkerState::Free => !self.held,
            WorkerState::Unused => self.all || (self.free && worker.not_before.is_none()),
            WorkerState::Waiting => !self.held && !self.free,
        }
    }
}

/// Whether a worker id can be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum WorkerState {
    /// A node holds it: its lease has not expired by the store's clock.
    Held,
    /// It was used, and can be leased.
    Free,
    /// It was used, and no lane of it can be leased before an instant.
    Waiting,
    /// It was never used, and can be leased, after a fail-over from an instant on.
    Unused,
}

/// A worker id as the store has it, with the names of `/cluster`.
#[derive(Debug, Serialize)]
struct Worker {
    worker_id: u64,
    lane: usize,
    state: WorkerState,
    /// The first instant at which a lane can be leased, if that is to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    /// The width and value of the reserved bits that the row belongs to.
    reserved: String,
    holder: Option<String>,
    renewed: Option<String>,
    expires: Option<String>,
    /// Of each lane: the instant, or the position where the layout is not known; null if unused.
    marks: Vec<Option<String>>,
}

/// The worker ids of a namespace.
#[derive(Debug, Default, Serialize)]
struct Namespace {
    /// The recorded layout, if this configuration has the same.
    layout: Option<String>,
    held: u64,
    free: u64,
    waiting: u64,
    /// Of the configured range, if this configuration has the recorded layout; otherwise of the rows
    /// in the store.
    unused: u64,
    workers: Vec<Worker>,
}

/// What `raindrop workers --json` prints.
#[derive(Debug, Serialize)]
struct Document {
    /// This machine's clock.
    now: String,
    namespaces: BTreeMap<String, Namespace>,
}

/// Prints the worker ids of one namespace, or of all.
pub(super) async fn list(
    config: &Config,
    store: &dyn Store,
    clock: &dyn Clock,
    arguments: &WorkersArguments,
) -> Result<(), Failure> {
    let WorkersArguments { namespace, selection, json, .. } = arguments;
    let mut rows = match store.list_rows().await {
        // A list must not create the tables.
        Err(StoreError::Vanished(_)) => Vec::new(),
        rows => rows?,
    };
    if let Some(namespace) = namespace {
        check_namespace(config, &rows, namespace)?;
        rows.retain(|row| row.namespace == *namespace);
    }
    if rows.is_empty() && !json {
        let whose =
            namespace.as_ref().map_or(String::new(), |name| format!(" of namespace {name}"));
        error(&format!("the store has no worker ids{whose} yet"));
        return Ok(());
    }
    let mut known: BTreeMap<&str, &KeeperSettings> = BTreeMap::new();
    for settings in config.keepers() {
        let KeeperSettings { namespace, layout, .. } = settings;
        // Marks can be shown as instants only if the configured layout is the recorded one.
        let record = match store.read_record(namespace).await {
            Err(StoreError::Vanished(_)) => None,
            record => record?,
        };
        let is_ours = |record: &LayoutRecord| record.canonical == layout.canonical();
        if let Some(LayoutRecord { history, .. }) = record.filter(is_ours) {
            known.insert(namespace, settings);
            // Show the marks that count in the present epoch.
            for ListedRow { row, .. } in rows.iter_mut().filter(|row| row.namespace == *namespace) {
                row.marks = history.marks(layout, row.epoch, &row.marks);
            }
        }
    }
    let now_ms = clock.now_ms();
    let namespaces = namespaces(&rows, &known, *selection, now_ms);
    if *json {
        return print_json(&Document { now: format_unix_ms(now_ms), namespaces });
    }
    print(&text(&namespaces, *selection))
}

/// Counts the worker ids of each namespace, and keeps those that are selected.
fn namespaces(
    rows: &[ListedRow],
    known: &BTreeMap<&str, &KeeperSettings>,
    selection: Selection,
    now_ms: i64,
) -> BTreeMap<String, Namespace> {
    let mut namespaces: BTreeMap<String, Namespace> = BTreeMap::new();
    for listed in rows {
        let settings = known.get(listed.namespace.as_str()).copied();
        let namespace = namespaces.entry(listed.namespace.clone()).or_default();
        let layout = settings.map(|settings| &settings.layout);
        namespace.layout = layout.map(Layout::canonical);
        let layout = layout.filter(|layout| listed.row.marks.lanes() == layout.lanes());
        let worker = Worker::new(listed, layout, now_ms);
        *match worker.state {
            WorkerState::Held => &mut namespace.held,
            WorkerState::Free => &mut namespace.free,
            WorkerState::Waiting => &mut namespace.waiting,
            WorkerState::Unused => &mut namespace.unused,
        } += 1;
        if selection.shows(&worker) {
            namespace.workers.push(worker);
        }
    }
    for (name, namespace) in &mut namespaces {
        if let Some(settings) = known.get(name.as_str()) {
            // Rows of large ranges are created when they are needed.
            namespace.unused = unused_of_range(rows, settings);
        }
    }
    namespaces
}

/// Returns how many worker ids of the configured range no node has used yet.
fn unused_of_range(rows: &[ListedRow], settings: &KeeperSettings) -> u64 {
    let KeeperSettings { namespace, layout, min_worker, max_worker, .. } = settings;
    let reserved_key = layout.reserved_key();
    let is_used = |listed: &&ListedRow| {
        listed.namespace == *namespace
            && listed.reserved_key == reserved_key
            && (*min_worker..=*max_worker).contains(&listed.row.worker)
            && !listed.row.was_never_written()
    };
    let used = rows.iter().filter(is_used).count() as u64;
    (max_worker - min_worker + 1).saturating_sub(used)
}

/// Returns the table for people, and a line of counts for each namespace.
fn text(namespaces: &BTreeMap<String, Namespace>, selection: Selection) -> String {
    let lines = namespaces.iter().flat_map(|(name, namespace)| {
        namespace.workers.iter().map(move |worker| worker.line(name))
    });
    let mut text = table(HEADINGS, &lines.collect::<Vec<_>>());
    for (name, Namespace { held, free, waiting, unused, .. }) in namespaces {
        let all = if *unused > 0 && selection.is_default() { "; --all lists them" } else { "" };
        text += &format!(
            "{}: {held} held, {free} free, {waiting} not free before an instant, {unused} never \
             used{all}\n",
            visible(name)
        );
    }
    text
}

impl Worker {
    fn new(
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

    fn line(&self, namespace: &str) -> [String; 7] {
        let cell = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
        let state = match (self.state, &self.not_before) {
            (_, Some(instant)) => format!("not before {instant}"),
            (WorkerState::Held, None) => "held".to_owned(),
            _ => "free".to_owned(),
        };
        let marks = self.marks.iter().map(|mark| mark.as_deref().unwrap_or("unused"));
        [
            namespace.to_owned(),
            self.worker_id.to_string(),
            self.lane.to_string(),
            state,
            cell(&self.expires),
            marks.collect::<Vec<_>>().join(","),
            cell(&self.holder),
        ]
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

/// Refuses a namespace that is neither configured nor in the store.
fn check_namespace(config: &Config, rows: &[ListedRow], namespace: &str) -> Result<(), Failure> {
    if rows.iter().any(|row| row.namespace == namespace) {
        return Ok(());
    }
    let configured = config.keepers().map(|keeper| &keeper.namespace);
    let known: BTreeSet<&String> =
        configured.chain(rows.iter().map(|row| &row.namespace)).collect();
    match keeper_of(config, namespace) {
        Ok(_) => Ok(()),
        Err(_) if config.namespaces.iter().all(|known| known.name != namespace) => {
            Err(Failure::Usage(unknown_namespace(namespace, known.into_iter())))
        }
        Err(is_segment) => Err(is_segment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        lease::{HighWaterMarks, Token},
        preset::Preset,
    };

    const NOW: i64 = 1_763_650_000_000;

    fn layout() -> Layout {
        Preset::Raindrop.spec().build().expect("valid")
    }

    fn listed(layout: &Layout) -> ListedRow {
        let tick = layout.tick_in_range(NOW).expect("fits");
        ListedRow {
            namespace: "default".into(),
            reserved_key: "0/0".into(),
            row: Row {
                worker: 7,
                epoch: Token::UNUSED,
                token: Token::UNUSED,
                holder: "10.0.0.7:8080#mac".into(),
                lane: 1,
                marks: HighWaterMarks::all_at(0, 2).with(1, layout.first_position(tick)),
                free: false,
                heartbeat_ms: NOW,
                expires_ms: NOW + 90_000,
            },
        }
    }

    #[test]
    fn rows_are_shown_with_their_marks_as_instants() {
        let settings = KeeperSettings::new(layout(), "");
        let listed = listed(&settings.layout);
        let known = [("default", &settings)].into();
        let shown = namespaces(std::slice::from_ref(&listed), &known, Selection::default(), NOW);
        assert_eq!(
            text(&shown, Selection::default()),
            "NAMESPACE  WORKER  LANE  STATE  EXPIRES                   MARKS                            HOLDER\n\
             default    7       1     held   2025-11-20T14:48:10.000Z  unused,2025-11-20T14:46:40.000Z  10.0.0.7:8080#mac\n\
             default: 1 held, 0 free, 0 not free before an instant, 510 never used; \
             --all lists them\n"
        );
        let json = serde_json::to_value(&shown["default"].workers[0]).expect("JSON");
        assert_eq!(
            json,
            serde_json::json!({
                "worker_id": 7,
                "lane": 1,
                "state": "held",
                "reserved": "0/0",
                "holder": "10.0.0.7:8080#mac",
                "renewed": "2025-11-20T14:46:40.000Z",
                "expires": "2025-11-20T14:48:10.000Z",
                "marks": [null, "2025-11-20T14:46:40.000Z"],
            })
        );
        // What the marks mean is unknown.
        assert_eq!(Worker::new(&listed, None, NOW).marks[0].as_deref(), Some("0"));
    }

    #[test]
    fn each_state_is_counted_and_selected() {
        let settings = KeeperSettings { max_worker: 8, ..KeeperSettings::new(layout(), "") };
        let layout = &settings.layout;
        let tick = layout.tick_in_range(NOW).expect("fits");
        let held = listed(layout);
        let mut free = held.clone();
        free.row.free = true;
        let mut waiting = free.clone();
        waiting.row.marks = HighWaterMarks::all_at(layout.first_position(tick + 90_000), 2)
            .with(1, layout.first_position(tick + 60_000));
        let mut unused = free.clone();
        (unused.row.holder, unused.row.heartbeat_ms) = (String::new(), 0);
        // As after a fail-over: its marks count as at the barrier.
        let mut unused_at_barrier = unused.clone();
        unused_at_barrier.row.marks = waiting.row.marks.clone();
        let known = [("default", &settings)].into();
        let rows = [held, free, waiting, unused, unused_at_barrier];
        let states = |selection| {
            let mut shown = namespaces(&rows, &known, selection, NOW);
            let shown = shown.remove("default").expect("there");
            assert_eq!((shown.held, shown.free, shown.waiting, shown.unused), (1, 1, 1, 5));
            shown.workers.iter().map(|worker| worker.line("default")[3].clone()).collect::<Vec<_>>()
        };
        let not_before = "not before 2025-11-20T14:47:40.000Z";
        assert_eq!(states(Selection::default()), ["held", "free", not_before]);
        let only = Selection::default();
        let all = ["held", "free", not_before, "free", not_before];
        assert_eq!(states(Selection { all: true, ..only }), all);
        assert_eq!(states(Selection { held: true, ..only }), ["held"]);
        assert_eq!(states(Selection { free: true, ..only }), ["free", "free"]);
        let counted = text(&namespaces(&rows, &known, only, NOW), only);
        assert!(counted.ends_with(" 5 never used; --all lists them\n"), "{counted}");
    }
}
