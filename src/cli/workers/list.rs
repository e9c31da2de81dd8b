//! `raindrop workers`: lists worker ids, as a table or as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::WorkersArguments;
use crate::{
    cli::{
        arguments::keeper_of,
        client::Client,
        failure::Failure,
        output::{error, print, print_json, table},
    },
    config::Config,
    core::{clock::Clock, instant::format_unix_ms, visible::visible},
    server::{Worker, WorkerList, WorkerState, has_layout, unknown_namespace},
    store::{ListedRow, Store, StoreError},
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

/// The document that `raindrop workers --json` prints.
#[derive(Debug, Deserialize, Serialize)]
struct Document {
    /// The clock of this machine, or of the service.
    now: String,
    /// Only if the list is not of now.
    #[serde(flatten)]
    stale: Option<Stale>,
    namespaces: BTreeMap<String, WorkerList>,
}

/// Why a service shows an earlier list: that of the last time when its store answered.
#[derive(Debug, Deserialize, Serialize)]
struct Stale {
    /// Why the store did not answer.
    store_error: String,
    workers_age_seconds: u64,
}

impl From<Stale> for Failure {
    fn from(Stale { store_error, workers_age_seconds }: Stale) -> Self {
        Self::Failed(format!(
            "the store of the service: {store_error}; this is its list of {workers_age_seconds} s \
             ago"
        ))
    }
}

/// The part of `/cluster?all=true` that is read.
#[derive(Deserialize)]
struct Cluster {
    now: String,
    store_error: Option<String>,
    workers_age_seconds: Option<u64>,
    namespaces: BTreeMap<String, Value>,
}

/// Prints the worker ids of one namespace, or of all.
pub(super) async fn list(
    config: &Config,
    store: &dyn Store,
    clock: &dyn Clock,
    arguments: &WorkersArguments,
) -> Result<(), Failure> {
    let mut rows = match store.list_rows().await {
        // A list must not create the tables.
        Err(StoreError::Vanished(_)) => Vec::new(),
        rows => rows?,
    };
    if let Some(namespace) = &arguments.namespace {
        check_namespace(config, &rows, namespace)?;
        rows.retain(|row| row.namespace == *namespace);
    }
    let mut known = Vec::new();
    for settings in config.keepers() {
        // Marks can be shown as instants only if the configured layout is the recorded one.
        let record = match store.read_record(&settings.namespace).await {
            Err(StoreError::Vanished(_)) => None,
            record => record?,
        };
        if has_layout(settings, record.as_ref(), &mut rows) {
            known.push(settings);
        }
    }
    let now_ms = clock.now_ms();
    let names: BTreeSet<&String> = rows.iter().map(|row| &row.namespace).collect();
    let list = |name: &String| {
        let settings = known.iter().find(|settings| settings.namespace == *name).copied();
        (name.clone(), WorkerList::of(name, &rows, settings, now_ms))
    };
    let namespaces = names.into_iter().map(list).collect();
    show(&mut Document { now: format_unix_ms(now_ms), stale: None, namespaces }, arguments)
}

/// Prints the worker ids of one namespace of a service, or of all.
pub(super) async fn list_remote(
    client: &Client,
    arguments: &WorkersArguments,
) -> Result<(), Failure> {
    let Cluster { now, store_error, workers_age_seconds, namespaces: answered } =
        client.get("/cluster?all=true").await?;
    let stale = match (store_error, workers_age_seconds) {
        (None, _) => None,
        (Some(store_error), Some(workers_age_seconds)) => {
            Some(Stale { store_error, workers_age_seconds })
        }
        (Some(reason), None) => {
            return Err(Failure::Failed(format!("the store of the service: {reason}")));
        }
    };
    let mut namespaces: BTreeMap<String, WorkerList> = BTreeMap::new();
    // Those in segment mode have no worker ids.
    for (name, answer) in answered.into_iter().filter(|(_, answer)| answer["workers"].is_array()) {
        let list = serde_json::from_value(answer).map_err(|error| {
            Failure::Failed(format!("/cluster of the service, namespace {name}: {error}"))
        })?;
        namespaces.insert(name, list);
    }
    if let Some(namespace) = &arguments.namespace {
        let Some(list) = namespaces.remove(namespace) else {
            return Err(Failure::Usage(unknown_namespace(namespace, namespaces.keys())));
        };
        namespaces = [(namespace.clone(), list)].into();
    }
    let mut document = Document { now, stale, namespaces };
    show(&mut document, arguments)?;
    document.stale.map_or(Ok(()), |stale| Err(stale.into()))
}

/// Prints the worker ids that are selected, or says that there are none.
fn show(
    document: &mut Document,
    WorkersArguments { namespace, selection, json, .. }: &WorkersArguments,
) -> Result<(), Failure> {
    if document.namespaces.is_empty() && !json {
        let whose =
            namespace.as_ref().map_or(String::new(), |name| format!(" of namespace {name}"));
        error(&format!("the store has no worker ids{whose} yet"));
        return Ok(());
    }
    for list in document.namespaces.values_mut() {
        list.workers.retain(|worker| selection.shows(worker));
    }
    if *json { print_json(document) } else { print(&text(&document.namespaces, *selection)) }
}

/// Returns the table for people, and a line of counts for each namespace.
fn text(namespaces: &BTreeMap<String, WorkerList>, selection: Selection) -> String {
    let lines = namespaces
        .iter()
        .flat_map(|(name, list)| list.workers.iter().map(move |worker| line(worker, name)));
    let mut text = table(HEADINGS, &lines.collect::<Vec<_>>());
    for (name, WorkerList { held, free, waiting, unused, .. }) in namespaces {
        let all = if *unused > 0 && selection.is_default() { "; --all lists them" } else { "" };
        text += &format!(
            "{}: {held} held, {free} free, {waiting} not free before an instant, {unused} never \
             used{all}\n",
            visible(name)
        );
    }
    text
}

fn line(worker: &Worker, namespace: &str) -> [String; 7] {
    let cell = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
    let state = match (worker.state, &worker.not_before) {
        (_, Some(instant)) => format!("not before {instant}"),
        (WorkerState::Held, None) => "held".to_owned(),
        _ => "free".to_owned(),
    };
    let marks = worker.marks.iter().map(|mark| mark.as_deref().unwrap_or("unused"));
    [
        namespace.to_owned(),
        worker.worker_id.to_string(),
        worker.lane.to_string(),
        state,
        cell(&worker.expires),
        marks.collect::<Vec<_>>().join(","),
        cell(&worker.holder),
    ]
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
    use crate::{
        core::{
            layout::Layout,
            lease::{HighWaterMarks, Row, Token},
            preset::Preset,
        },
        keeper::KeeperSettings,
    };

    /// Returns the list of these rows with the workers that are selected.
    fn selected(
        rows: &[ListedRow],
        settings: &KeeperSettings,
        selection: Selection,
    ) -> BTreeMap<String, WorkerList> {
        let mut list = WorkerList::of("default", rows, Some(settings), NOW);
        list.workers.retain(|worker| selection.shows(worker));
        [("default".to_owned(), list)].into()
    }

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
        let shown = selected(std::slice::from_ref(&listed), &settings, Selection::default());
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
        // Without the layout, the marks cannot be shown as instants.
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
        let rows = [held, free, waiting, unused, unused_at_barrier];
        let states = |selection| {
            let mut shown = selected(&rows, &settings, selection);
            let shown = shown.remove("default").expect("there");
            assert_eq!((shown.held, shown.free, shown.waiting, shown.unused), (1, 1, 1, 5));
            shown
                .workers
                .iter()
                .map(|worker| line(worker, "default")[3].clone())
                .collect::<Vec<_>>()
        };
        let not_before = "not before 2025-11-20T14:47:40.000Z";
        assert_eq!(states(Selection::default()), ["held", "free", not_before]);
        let only = Selection::default();
        let all = ["held", "free", not_before, "free", not_before];
        assert_eq!(states(Selection { all: true, ..only }), all);
        assert_eq!(states(Selection { held: true, ..only }), ["held"]);
        assert_eq!(states(Selection { free: true, ..only }), ["free", "free"]);
        let counted = text(&selected(&rows, &settings, only), only);
        assert!(counted.ends_with(" 5 never used; --all lists them\n"), "{counted}");
    }
}
