//! What the task and its issuers have in common.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::Instant,
};

use super::{
    SegmentSettings,
    code::{Code, Queue},
};
use crate::{
    core::{issue::ClaimError, lease::Token},
    keeper::{
        IssueError, Observer, StoreOperation, Trouble, ask,
        random::{Random, fresh_token_of, pause_after},
    },
    store::{Store, StoreError},
};

/// How many questions are put at a time; others wait here rather than for a connection, where
/// they would time out.
const CONNECTIONS: usize = 2;

/// Everything that a store's segment namespaces share.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) namespaces: Vec<Arc<Namespace>>,
    /// Whether tables and codes were made, and how the store fails if it does.
    pub(super) report: watch::Sender<Report>,
    random: Mutex<Random>,
    /// As many questions at a time as a node has connections.
    connections: Semaphore,
}

/// What the task last found out about the store.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub(super) prepared: bool,
    pub(super) failing: Option<Failing>,
}

/// How the store fails, and since when.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    pub(super) how: String,
    pub(super) since: Instant,
}

/// One namespace.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) settings: SegmentSettings,
    pub(super) observer: Arc<dyn Observer>,
    codes: RwLock<HashMap<String, Arc<Code>>>,
    sealed: AtomicBool,
    queue: Queue,
}

/// How a segment namespace is doing.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentStatus {
    /// Whether every code has numbers, or gets them when they are asked for. Codes that are used
    /// up do not count, since no other node has numbers for them either; nor do those that are to
    /// be made on demand.
    pub issuing: bool,
    /// What is wrong, if anything is.
    pub trouble: Option<Trouble>,
    /// How many codes there are.
    pub codes: usize,
    /// How many numbers are in hand, in all codes.
    pub remaining: u64,
    /// Which part of its numbers nobody has reserved yet, from 1 down to 0, as last seen: of the
    /// code where that is least.
    pub unreserved: f64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("namespaces", &self.namespaces).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(
        namespaces: Vec<(SegmentSettings, Arc<dyn Observer>)>,
        store: Arc<dyn Store>,
        random: Random,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Arc<Code>>) {
        let (queue, queued) = mpsc::unbounded_channel();
        let namespace = |(settings, observer)| Namespace::new(settings, observer, queue.clone());
        let shared = Self {
            store,
            namespaces: namespaces.into_iter().map(namespace).collect(),
            report: watch::Sender::new(Report::default()),
            random: Mutex::new(random),
            connections: Semaphore::new(CONNECTIONS),
        };
        (Arc::new(shared), queued)
    }

    pub(super) fn fresh_token(&self) -> Token {
        fresh_token_of(&self.random)
    }

    /// How long to wait after so many failures of the store, and one more.
    pub(super) fn pause_after(&self, failures: u32) -> Duration {
        pause_after(failures, &mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How the store fails, if it has for at least this long.
    pub(super) fn failing_for(&self, duration: Duration) -> Option<Trouble> {
        let failing = self.report.borrow().failing.clone();
        let failing = failing.filter(|failing| failing.since.elapsed() >= duration)?;
        Some(Trouble::StoreUnavailable(failing.how))
    }

    /// Asks the store, once a connection is to be had.
    pub(super) async fn ask<T>(
        &self,
        observer: &dyn Observer,
        operation: StoreOperation,
        question: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        // It is never closed.
        let _connection = self.connections.acquire().await;
        ask(observer, operation, question).await
    }

    pub(super) fn status(&self, namespace: &Namespace) -> SegmentStatus {
        let report = self.report.borrow().clone();
        let codes = namespace.all();
        codes.iter().for_each(|code| code.report_issued(&*namespace.observer));
        let lefts: Vec<u64> = codes.iter().map(|code| code.cursor.left()).collect();
        let of_code = codes
            .iter()
            .zip(&lefts)
            .find_map(|(code, left)| code.trouble.borrow().clone().filter(|_| *left == 0));
        let counts = |code: &Code| {
            // Nobody can make a node look ill with codes that nobody used before.
            let is_meant = namespace.settings.codes.contains_key(&code.name) || code.had_block();
            is_meant && !code.is_used_up()
        };
        let is_empty = codes.iter().zip(&lefts).any(|(code, left)| *left == 0 && counts(code));
        let trouble = match (namespace.is_sealed(), report.prepared, report.failing) {
            (true, ..) => Some(Trouble::ShuttingDown),
            (_, _, Some(failing)) => Some(Trouble::StoreUnavailable(failing.how)),
            (_, false, None) => Some(Trouble::Starting),
            (_, true, None) => of_code,
        };
        let served = report.prepared && !(is_empty && trouble.is_some());
        SegmentStatus {
            issuing: served && trouble != Some(Trouble::ShuttingDown),
            trouble,
            codes: codes.len(),
            remaining: lefts.iter().sum(),
            unreserved: codes.iter().map(|code| code.unreserved()).fold(1.0, f64::min),
        }
    }
}

impl Namespace {
    fn new(settings: SegmentSettings, observer: Arc<dyn Observer>, queue: Queue) -> Arc<Self> {
        Arc::new_cyclic(|namespace| {
            let code = |(name, spec): (&String, &_)| {
                let code = Code::new(namespace.clone(), name.clone(), *spec, queue.clone());
                (name.clone(), code)
            };
            let codes = settings.codes.iter().map(code).collect();
            let (codes, sealed) = (RwLock::new(codes), AtomicBool::new(false));
            Self { settings, observer, codes, sealed, queue }
        })
    }

    /// The code of this name, made if that is allowed.
    pub(super) fn code(self: &Arc<Self>, name: &str) -> Result<Arc<Code>, IssueError> {
        self.known(name).map_or_else(|| self.make(name), Ok)
    }

    /// The code of this name, if there is one.
    pub(super) fn known(&self, name: &str) -> Option<Arc<Code>> {
        let codes = self.codes.read().unwrap_or_else(PoisonError::into_inner);
        codes.get(name).map(Arc::clone)
    }

    #[cold]
    fn make(self: &Arc<Self>, name: &str) -> Result<Arc<Code>, IssueError> {
        let Some(spec) = self.settings.auto_create else {
            return Err(IssueError::Refused(ClaimError::UnknownCode(name.to_owned())));
        };
        let mut codes = self.codes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = codes.get(name) {
            return Ok(Arc::clone(code));
        }
        let max = self.settings.codes_max;
        if self.is_sealed() {
            let (trouble, retry_after) = (Trouble::ShuttingDown, Duration::from_secs(1));
            return Err(IssueError::NoLease { trouble, retry_after });
        }
        if codes.len() >= max {
            let refused = ClaimError::TooManyCodes { max, retry_after: NEVER };
            return Err(IssueError::Refused(refused));
        }
        let code = Code::new(Arc::downgrade(self), name.to_owned(), spec, self.queue.clone());
        codes.insert(name.to_owned(), Arc::clone(&code));
        Ok(code)
    }

    /// Every code, by name.
    pub(super) fn all(&self) -> Vec<Arc<Code>> {
        by_name(&self.codes.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::SeqCst)
    }

    /// From now on no code is made; returns those that there are.
    pub(super) fn seal(&self) -> Vec<Arc<Code>> {
        // Under the lock, so that no code is made unseen.
        let codes = self.codes.write().unwrap_or_else(PoisonError::into_inner);
        self.sealed.store(true, Ordering::SeqCst);
        by_name(&codes)
    }
}

/// In the same order every time.
fn by_name(codes: &HashMap<String, Arc<Code>>) -> Vec<Arc<Code>> {
    let mut codes: Vec<_> = codes.values().cloned().collect();
    codes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    codes
}

/// Codes are not forgotten; an hour is as good as any other time.
const NEVER: Duration = Duration::from_hours(1);
