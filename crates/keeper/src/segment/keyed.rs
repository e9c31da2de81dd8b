//! Issues numbers of strict codes to requests with an idempotency key, each key one number.
//!
//! A write of a code ([`super::strict::write`]) with keys has these steps:
//! 1. [`claim`] claims the keys that wait. A key that has its text is answered with it. A key that
//!    another process has claimed waits for that process.
//! 2. The write reserves numbers for the others, with those of claims without a key.
//! 3. [`finish`] writes the texts of the numbers, each into a key that has none, and answers with what
//!    the store holds then.
//!
//! If the outcome of step 3 is unknown, it is repeated before anything else of the code. A number
//! whose text may have been written, or may be written late, is not undone. Once a key is claimed,
//! its number is reserved even if its caller has given up: a repeated request gets it.
//!
//! Why a key gets one number and a number one key is argued in `docs/safety/strict.md`. Tests:
//! `src/tests/keyed.rs`, and tests/models/simulation/segments.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use raindrop_core::{
    lease::Token,
    segment::{Block, Unissued},
};
use raindrop_store::{KeyState, KeyText, StoreError};

use super::{
    code::Code,
    namespace::Purpose,
    planted,
    refill::{ReservedBlock, add_block},
    strict::{Answer, StrictCode, Waiting},
};
use crate::support::observer::StoreOperation;

/// How long a process may take from claiming a key to writing its text. Then another process may
/// take the key over, and the number of the first one is a gap.
const PATIENCE: Duration = Duration::from_secs(15);
/// The most keys that are claimed at once, so that a statement stays short.
const KEYS_AT_ONCE: usize = 500;

/// A client's name for a request, by which its repetitions get the same number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

/// Why a text is no idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is no idempotency key: it must be {}", shown(.0), IdempotencyKey::ALLOWED)]
pub struct InvalidIdempotencyKey(String);

/// Returns the beginning of a text in quotes.
fn shown(text: &str) -> String {
    match text.char_indices().nth(64) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

impl IdempotencyKey {
    /// The keys that are allowed, as a phrase that follows "must be".
    pub const ALLOWED: &str = "1 to 255 visible ASCII characters, without blanks";

    /// Reads a key.
    ///
    /// # Errors
    ///
    /// Unless the text is of [`Self::ALLOWED`].
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidIdempotencyKey> {
        let text = text.into();
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_visible && (1..=KeyText::LONGEST_KEY).contains(&text.len()) {
            Ok(Self(text))
        } else {
            Err(InvalidIdempotencyKey(text))
        }
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a request with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedNumber {
    /// The number in the form of its code, or its digits if the code has none. Always the same for a
    /// key.
    pub text: String,
    /// Whether an earlier request with this key got it.
    pub is_repeated: bool,
}

/// The claims of a strict code that have keys.
#[derive(Debug, Default)]
pub(super) struct KeyedClaims {
    /// The token by which the store knows the keys that this process has claimed.
    owner: OnceLock<Token>,
    /// Claims whose keys are not claimed yet, or by another process.
    arrived: Mutex<VecDeque<Waiting>>,
    unfinished: Mutex<Option<Unfinished>>,
}

/// Numbers that are reserved for keys, and whose texts may not be in the store yet.
#[derive(Debug)]
struct Unfinished {
    reserved: ReservedBlock,
    claims: Vec<Waiting>,
    texts: Vec<KeyText>,
}

/// What became of the keys that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// There were none. The store was not called.
    None,
    /// Some are this process's, or were answered.
    Claimed,
    /// Other processes have claimed all of them.
    Busy,
}

impl KeyedClaims {
    fn arrived(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unfinished(&self) -> MutexGuard<'_, Option<Unfinished>> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, claim: Waiting) {
        self.arrived().push_back(claim);
    }

    /// Returns whether a claim waits, or a text has to be written.
    pub(super) fn has_claims(&self) -> bool {
        let waits = self.arrived().iter().any(|claim| !claim.answer.is_closed());
        waits || self.unfinished().is_some()
    }

    fn owner(&self, code: &Code) -> Token {
        *self.owner.get_or_init(|| code.namespace.shared.random().fresh_token())
    }

    /// Removes the claims whose callers gave up. Returns the keys of the first others, each once and
    /// sorted, so that two processes lock rows in one order. Leaves out those whose numbers are being
    /// reserved.
    fn to_claim(&self, being_reserved: &HashSet<String>) -> Vec<String> {
        let mut arrived = self.arrived();
        arrived.retain(|claim| !claim.answer.is_closed());
        let keys = arrived.iter().filter_map(|claim| claim.key.as_ref());
        let mut seen = HashSet::new();
        let new = keys.filter(|key| !being_reserved.contains(*key) && seen.insert(*key));
        let mut keys: Vec<String> = new.take(KEYS_AT_ONCE).cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// Notes numbers that are reserved for claims with keys, before their texts are sent.
    pub(super) fn reserved(&self, code: &Code, reserved: ReservedBlock, claims: Vec<Waiting>) {
        let (progression, form) = (code.progression, code.text_form());
        let first = progression.index_at(reserved.block.first);
        let text = |(index, claim): (u64, &Waiting)| {
            let number = progression.number(index);
            let text = form.map_or_else(|| number.to_string(), |form| form.write(number));
            KeyText { key: claim.key.clone().unwrap_or_default(), text }
        };
        let texts = (first..).zip(&claims).map(text).collect();
        *self.unfinished() = Some(Unfinished { reserved, claims, texts });
    }
}

/// Claims the keys that wait, and answers those that have a number.
pub(super) async fn claim(code: &Code, strict: &StrictCode) -> Result<Keys, StoreError> {
    if !code.namespace.shared.store.keeps_keys() {
        // They came before the store was prepared. Their callers find out why.
        strict.keyed.arrived().clear();
        return Ok(Keys::None);
    }
    let keys = strict.keyed.to_claim(&strict.keys_being_reserved());
    if keys.is_empty() {
        return Ok(Keys::None);
    }
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (namespace, owner) = (&code.namespace, strict.keyed.owner(code));
    let store = &namespace.shared.store;
    let call = store.claim_keys(namespace.name(), &code.name, &names, owner, PATIENCE);
    let states = namespace.call(Purpose::Refill, StoreOperation::Reserve, call).await?;
    let mut states: HashMap<&str, KeyState> = names.into_iter().zip(states).collect();
    let (mut is_busy, mut owned, mut busy) = (true, Vec::new(), Vec::new());
    let mut arrived = strict.keyed.arrived();
    for claim in std::mem::take(&mut *arrived) {
        let key = claim.key.as_deref().unwrap_or_default();
        match states.get(key) {
            Some(KeyState::Finished(text)) => {
                is_busy = false;
                let number = KeyedNumber { text: text.clone(), is_repeated: true };
                // The caller may have given up meanwhile.
                let _ = claim.answer.send(Ok(Answer::Keyed(number)));
            }
            Some(KeyState::Owned) => {
                is_busy = false;
                // A further claim with this key waits for the text.
                states.remove(key);
                owned.push(claim);
            }
            // The keys that were not claimed go first next time.
            Some(KeyState::Busy) => busy.push(claim),
            None => arrived.push_back(claim),
        }
    }
    arrived.extend(busy);
    drop(arrived);
    strict.wait(owned);
    Ok(if is_busy { Keys::Busy } else { Keys::Claimed })
}

/// Writes the texts of the numbers that are reserved for keys, and answers their claims. Does nothing
/// if there are none. After an error it must be repeated before the next reservation.
pub(super) async fn finish(code: &Code, strict: &StrictCode) -> Result<(), StoreError> {
    let texts = strict.keyed.unfinished().as_ref().map(|unfinished| unfinished.texts.clone());
    let Some(texts) = texts else { return Ok(()) };
    if planted::answers_before_keys()
        && let Some(Unfinished { reserved, claims, texts }) = strict.keyed.unfinished().take()
    {
        let states: Vec<_> =
            texts.iter().map(|text| KeyState::Finished(text.text.clone())).collect();
        answer(code, strict, Unfinished { reserved, claims, texts }, states);
    }
    let (namespace, owner) = (&code.namespace, strict.keyed.owner(code));
    let call = namespace.shared.store.finish_keys(namespace.name(), &code.name, owner, &texts);
    let states = namespace.call(Purpose::Refill, StoreOperation::Reserve, call).await?;
    if let Some(unfinished) = strict.keyed.unfinished().take() {
        answer(code, strict, unfinished, states);
    }
    Ok(())
}

/// Answers claims with the texts that the store holds. A claim whose key does not hold the text that
/// this process wrote is claimed again.
fn answer(code: &Code, strict: &StrictCode, unfinished: Unfinished, states: Vec<KeyState>) {
    let Unfinished { reserved: ReservedBlock { block, step, epoch }, claims, texts } = unfinished;
    let holds = |(text, state): (&KeyText, &KeyState)| match state {
        KeyState::Finished(stored) if *stored == text.text => Held::Ours,
        // Final, so a late write of our text changes nothing.
        KeyState::Finished(_) => Held::Another,
        KeyState::Owned | KeyState::Busy => Held::Unknown,
    };
    let held: Vec<Held> = texts.iter().zip(&states).map(holds).collect();
    // The numbers at the end that no key can get any more.
    let kept = held.iter().rposition(|held| *held != Held::Another).map_or(0, |last| last + 1);
    let increment = code.progression.increment();
    let numbers = |count: usize| count as u64 * increment;
    if kept > 0 {
        let end = block.first + numbers(kept);
        add_block(code, &ReservedBlock { block: Block { end, ..block }, step, epoch });
    }
    if kept < held.len() {
        let (by, reserved) = (numbers(held.len() - kept), block.token);
        strict.returned(Unissued { by, reserved, epoch });
    }
    let lost = held[..kept].iter().filter(|held| **held != Held::Ours).count();
    if lost > 0 {
        tracing::warn!(
            namespace = code.namespace.name(),
            code = code.name,
            count = lost,
            "numbers of a strict code may be a gap"
        );
    }
    for (at, (claim, text)) in claims.into_iter().zip(texts).enumerate() {
        // A code that was retired or shut down issues nothing more.
        let is_issued = at < kept && code.cursor.claim(1).is_ok();
        if held[at] != Held::Ours {
            strict.keyed.push(claim);
        } else if is_issued {
            let number = KeyedNumber { text: text.text, is_repeated: false };
            // If the caller has given up, a repeated request gets it.
            let _ = claim.answer.send(Ok(Answer::Keyed(number)));
        }
    }
}

/// What a key holds after this process wrote a text to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Ours,
    Another,
    /// No text: the key is lost, or another process has taken it over. The text may still arrive.
    Unknown,
}
