//! The promises that must hold for every ID, and the report of a broken one.

use std::{
    collections::{BTreeMap, HashMap, hash_map::DefaultHasher},
    fmt,
    hash::{Hash, Hasher},
};

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// An ID was issued twice.
    Duplicate,
    /// IDs of one code, node and lease do not ascend: single IDs that are claimed by name, those of
    /// a handle, and all others by tick.
    NotAscending,
    /// A claim waited longer than it may.
    WaitedTooLong,
    /// An ID is further ahead of the clock than it may be.
    TooFarAhead,
    /// A mark is further ahead of the clock than a window.
    MarkRanAway,
    /// A node created a row again that it had held, with a mark below the limit of its lease.
    MadeAnew,
    /// A step of a keeper panicked.
    KeeperPanicked,
    /// After all faults ended, a node that could have a row does not issue.
    Standstill,
    /// After all faults ended, the heartbeats of living holders look like those of crashed ones.
    RenewedTooSeldom,
    /// Something panicked.
    Panicked,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.detail)
    }
}

/// The events of a run, as a hash and, for a person, in words.
#[derive(Debug)]
pub(crate) struct Journal {
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl Journal {
    pub(crate) fn new(verbose: bool) -> Self {
        Self { hash: DefaultHasher::new(), lines: verbose.then(Vec::new) }
    }

    pub(crate) fn note(&mut self, fact: impl Hash, words: impl FnOnce() -> String) {
        fact.hash(&mut self.hash);
        if let Some(lines) = &mut self.lines {
            lines.push(words());
        }
    }

    pub(crate) fn finish(self) -> (u64, Vec<String>) {
        (self.hash.finish(), self.lines.unwrap_or_default())
    }
}

/// The last position of an answer, on each lane that a node issued a code on.
pub(crate) type LastOnLane = BTreeMap<(u64, u64), u64>;

/// The answers of a node before a claim began: the claim must get higher positions.
#[derive(Debug)]
pub(crate) struct AnsweredBefore {
    /// For the sequence, in all answers.
    pub(crate) by_all: LastOnLane,
    /// For the code, by its handle. A handle may issue from a run that it claimed before others
    /// claimed.
    pub(crate) by_handle: LastOnLane,
}

/// The codes that got an ID.
#[derive(Clone, Copy, Debug, Default)]
struct Owners {
    /// Whether a process issued it whose codes share a cursor.
    shared: bool,
    /// The codes, one bit each.
    codes: u8,
}

/// Every ID that was ever issued.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    ids: HashMap<u64, Owners>,
    /// By process and sequence.
    by_all: BTreeMap<(u32, usize), LastOnLane>,
    /// By process and code.
    by_handle: BTreeMap<(u32, usize), LastOnLane>,
    highest_ms: BTreeMap<u32, i64>,
}

impl Issued {
    /// Returns the answers of a process so far.
    pub(crate) fn answered_before(
        &self,
        generation: u32,
        sequence: usize,
        code: usize,
    ) -> AnsweredBefore {
        let of = |map: &BTreeMap<_, LastOnLane>, key| map.get(&key).cloned().unwrap_or_default();
        AnsweredBefore {
            by_all: of(&self.by_all, (generation, sequence)),
            by_handle: of(&self.by_handle, (generation, code)),
        }
    }

    /// Adds an ID, and returns whether it is allowed. Only codes that share no cursor may have
    /// equal IDs.
    pub(crate) fn add(&mut self, codes_shared: bool, code: usize, id: u64) -> bool {
        let owners = self.ids.entry(id).or_default();
        let is_new = if codes_shared {
            !owners.shared && owners.codes == 0
        } else {
            !owners.shared && owners.codes & 1 << code == 0
        };
        owners.shared |= codes_shared;
        owners.codes |= 1 << code;
        is_new
    }

    /// Returns the highest reading that a process may have issued under, now that it issued under
    /// one that is at most this.
    pub(crate) fn issued_under(&mut self, generation: u32, reading_ms: i64) -> i64 {
        let highest = self.highest_ms.entry(generation).or_insert(i64::MIN);
        *highest = reading_ms.max(*highest);
        *highest
    }

    /// Notes the last position of an answer, and the code if a handle gave the answer.
    pub(crate) fn answered(
        &mut self,
        generation: u32,
        sequence: usize,
        code_of_handle: Option<usize>,
        lane: (u64, u64),
        last: u64,
    ) {
        let note = |map: &mut BTreeMap<_, LastOnLane>, key| {
            let highest = map.entry((generation, key)).or_default().entry(lane).or_default();
            *highest = last.max(*highest);
        };
        note(&mut self.by_all, sequence);
        if let Some(code) = code_of_handle {
            note(&mut self.by_handle, code);
        }
    }
}
