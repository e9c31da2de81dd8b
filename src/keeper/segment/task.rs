//! The task's loop: prepares the store, then reserves what codes ask for, until it is told to
//! stop.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use super::{
    code::Code,
    refill::refill,
    shared::{Failing, Namespace, Shared},
};
use crate::{
    core::segment::{GiveBack, SegmentSpec},
    keeper::{
        KeeperError, KeeperTask, StoreOperation, Trouble, panics::catch_panic,
        random::LONGEST_PAUSE,
    },
    store::{LayoutRecord, NewSegment, StoreError, with_sources},
};

/// How many codes are being served at a time, those included that wait for a store that fails.
const SERVED_AT_A_TIME: usize = 64;
/// How a namespace's layout record begins in this mode; the table follows, because in another one
/// numbers would begin anew.
const WORDS: &str = "mode=segment table=";

#[derive(Debug)]
pub(super) struct Task {
    shared: Arc<Shared>,
    queue: mpsc::UnboundedReceiver<Arc<Code>>,
    refills: JoinSet<()>,
}

/// How giving numbers back ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// How many numbers the store has again.
    pub returned: u64,
    /// How many are lost: somebody else reserved since, or the store could not be asked.
    pub lost: u64,
}

impl Task {
    pub(super) fn new(shared: Arc<Shared>, queue: mpsc::UnboundedReceiver<Arc<Code>>) -> Self {
        Self { shared, queue, refills: JoinSet::new() }
    }

    /// Runs until `stop` brings the deadline of the release, or its sender is gone.
    pub(super) async fn run(
        mut self,
        mut stop: oneshot::Receiver<Instant>,
        failed: oneshot::Sender<Vec<KeeperError>>,
    ) -> GivenBack {
        let prepared = tokio::select! {
            biased;
            deadline = &mut stop => return self.stop(deadline.ok()).await,
            prepared = prepare(&self.shared) => prepared,
        };
        if let Err(errors) = prepared {
            // Nobody may be listening.
            let _ = failed.send(errors);
            return self.stop((&mut stop).await.ok()).await;
        }
        // Codes that nobody asked for yet have their first block early.
        for code in self.shared.namespaces.iter().flat_map(|namespace| namespace.all()) {
            code.cursor.ask();
        }
        loop {
            tokio::select! {
                biased;
                deadline = &mut stop => return self.stop(deadline.ok()).await,
                Some(_) = self.refills.join_next() => {}
                Some(code) = self.queue.recv(), if self.refills.len() < SERVED_AT_A_TIME => {
                    self.refills.spawn(serve(Arc::clone(&self.shared), code));
                }
            }
        }
    }

    /// Seals every code; within the deadline, if there is one, gives back what is unused.
    async fn stop(mut self, deadline: Option<Instant>) -> GivenBack {
        let Some(deadline) = deadline else { return GivenBack::default() };
        self.queue.close();
        // A reservation that is under way would be lost.
        let ended = async { while self.refills.join_next().await.is_some() {} };
        let half = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        let _ = timeout_at(half, ended).await;
        self.refills.abort_all();

        let mut given_back = GivenBack::default();
        let mut returning = JoinSet::new();
        for namespace in &self.shared.namespaces {
            for code in namespace.seal() {
                let (give_back, lost) = code.cursor.seal();
                code.set_trouble(Some(Trouble::ShuttingDown));
                given_back.lost += lost;
                let Some(give_back) = give_back else { continue };
                let (shared, namespace) = (Arc::clone(&self.shared), Arc::clone(namespace));
                while returning.len() >= SERVED_AT_A_TIME {
                    count(&mut given_back, returning.join_next().await);
                }
                returning.spawn(async move {
                    let returned = give(&shared, &namespace, &code, give_back);
                    let is_back = timeout_at(deadline, returned).await.unwrap_or(false);
                    (give_back.count, is_back)
                });
            }
        }
        while !returning.is_empty() {
            count(&mut given_back, returning.join_next().await);
        }
        given_back
    }
}

fn count(
    given_back: &mut GivenBack,
    returned: Option<Result<(u64, bool), tokio::task::JoinError>>,
) {
    match returned {
        Some(Ok((count, true))) => given_back.returned += count,
        Some(Ok((count, false))) => given_back.lost += count,
        // How many numbers a panic lost is not known; the panic itself was logged.
        Some(Err(_)) | None => {}
    }
}

async fn give(shared: &Shared, namespace: &Namespace, code: &Code, back: GiveBack) -> bool {
    let GiveBack { from, token, .. } = back;
    let fresh = shared.fresh_token();
    let name = &namespace.settings.namespace;
    let question = shared.store.give_back(name, &code.name, token, from, fresh);
    let answer = shared.ask(&*namespace.observer, StoreOperation::Reserve, question).await;
    if let Err(error) = &answer {
        tracing::warn!(namespace = name, code = code.name, error = with_sources(error), "lost");
    }
    answer.unwrap_or(false)
}

/// Reserves for a code until it has what it needs, however often the store fails. A panic is a
/// failure, too: what was reserved in vain is lost, never issued twice.
async fn serve(shared: Arc<Shared>, code: Arc<Code>) {
    let Some(namespace) = code.namespace.upgrade() else { return };
    let name = &namespace.settings.namespace;
    let mut failures = 0;
    loop {
        match catch_panic(refill(&shared, &namespace, &code)).await {
            Ok(Ok(())) => {
                shared.report.send_if_modified(|report| report.failing.take().is_some());
                break;
            }
            Ok(Err(error)) => failed(&shared, name, &error),
            Err(panic) => {
                namespace.observer.step_panicked(KeeperTask::Refill);
                tracing::error!(namespace = name, code = code.name, panic, "a refill panicked");
                report_failing(&shared, format!("a defect, which was logged: {panic}"));
            }
        }
        sleep(pause(&shared, &mut failures)).await;
    }
    let is_lost = *code.trouble.borrow() == Some(Trouble::StoreLost);
    if is_lost && code.demand().vanished.is_some() {
        // A node that is not ready gets no requests, so nobody else asks.
        sleep(LONGEST_PAUSE).await;
        code.leave_queue();
        code.cursor.ask();
        return;
    }
    code.leave_queue();
    // Who asked while the block was on its way is not in the queue.
    if code.trouble.borrow().is_none() && code.cursor.needs_more() {
        code.cursor.ask();
    }
}

fn failed(shared: &Shared, namespace: &str, error: &StoreError) {
    let how = with_sources(error);
    tracing::warn!(namespace, error = how, "the store fails");
    report_failing(shared, how);
}

fn report_failing(shared: &Shared, how: String) {
    shared.report.send_modify(|report| {
        let since = report.failing.take().map_or_else(Instant::now, |failing| failing.since);
        report.failing = Some(Failing { how, since });
    });
}

fn pause(shared: &Shared, failures: &mut u32) -> Duration {
    let pause = shared.pause_after(*failures);
    *failures += 1;
    pause
}

/// Makes tables, records and codes, however often the store fails.
async fn prepare(shared: &Shared) -> Result<(), Vec<KeeperError>> {
    let mut conflicts = Vec::new();
    for namespace in &shared.namespaces {
        let name = &namespace.settings.namespace;
        let mut failures = 0;
        loop {
            match prepare_namespace(shared, namespace).await {
                Ok(()) => break,
                Err(KeeperError::Store(error)) if !error.is_permanent() => {
                    failed(shared, name, &error);
                    sleep(pause(shared, &mut failures)).await;
                }
                // The others may be wrong, too, and are told together.
                Err(conflict @ KeeperError::LayoutConflict { .. }) => {
                    conflicts.push(conflict);
                    break;
                }
                Err(fatal) => return Err(vec![fatal]),
            }
        }
    }
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    shared.report.send_modify(|report| (report.prepared, report.failing) = (true, None));
    Ok(())
}

async fn prepare_namespace(shared: &Shared, namespace: &Namespace) -> Result<(), KeeperError> {
    let store = &shared.store;
    let (settings, observer) = (&namespace.settings, &*namespace.observer);
    let question = store.prepare();
    for warning in shared.ask(observer, StoreOperation::Prepare, question).await? {
        tracing::warn!(namespace = settings.namespace, "{warning}");
    }
    let ours = format!("{WORDS}{}", store.segment_table());
    let record = LayoutRecord::new(&ours, shared.fresh_token(), 0);
    let question = store.create_record(&settings.namespace, &record);
    let recorded = shared.ask(observer, StoreOperation::Prepare, question).await?.words;
    if recorded != ours {
        let namespace = settings.namespace.clone();
        return Err(KeeperError::LayoutConflict { namespace, ours, recorded });
    }
    let question = store.prepare_segments();
    shared.ask(observer, StoreOperation::Prepare, question).await?;
    let new = |(code, spec): (&String, &SegmentSpec)| NewSegment {
        code: code.clone(),
        first: spec.first(),
    };
    let codes: Vec<NewSegment> = settings.codes.iter().map(new).collect();
    let question = store.create_segments(&settings.namespace, &codes);
    shared.ask(observer, StoreOperation::Prepare, question).await?;
    Ok(())
}
