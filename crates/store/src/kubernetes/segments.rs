//! Segment codes: a Lease for each, and one for the settings of each managed code.
//!
//! No statement covers two objects, so a reservation reads the code first, then the record, and
//! writes the code only if its version is unchanged. If an epoch began between the two reads, the
//! record shows that. If the code was restored from a backup since, its Lease has another UID,
//! which refuses the patch. A conflict with another node is repeated after a pause.
//!
//! The API sorts by the names of objects, not of codes, and a list has every code of the namespace.
//! So a few codes are read one by one ([`READ_SINGLY`]). Tests: `tests`, and
//! tests/store/segments.rs on a real API server.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::RangeInclusive,
    time::Duration,
};

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use raindrop_core::{lease::Token, segment::CodeRow};
use rand::RngExt as _;
use tokio::time::{Instant, timeout_at};

use super::{
    KubernetesStore,
    object::{
        EPOCH, NAMESPACE, TOKEN, annotation, columns, expect_token, expect_uid, expect_version,
        is_under, lease, name_of, set, uid,
    },
};
use crate::{
    CodeState, IdempotencyStore, KeyState, KeyText, ListedSegment, ManagedCode, NewSegment,
    Reservation, Reserved, Result, SegmentStore, StoreError, Undo, UnusedNumbers,
    idempotency::keeps_none, lock, value::Reader,
};

const CODE: &str = "raindrop/code";
const NEXT: &str = "raindrop/next";
const STEP: &str = "raindrop/step";
const UPDATED: &str = "raindrop/updated-ms";
const CREATED: &str = "raindrop/created-ms";
const SETTINGS: &str = "raindrop/settings";
/// Up to this many codes are read one by one, in about 1 ms each. A list has every code of the
/// namespace: with 20 000 codes, 40 pages and 20 MiB, and nodes check their codes every 25 s.
const READ_SINGLY: usize = 16;
/// After this many requests in succession without an answer, no further code is read one by one.
const MOST_UNANSWERED: u32 = 2;

/// A write that lowers the next number of a code whose last reservation this was.
struct Lowering {
    /// The token of the reservation.
    reserved: Token,
    /// The epoch of the reservation.
    epoch: Token,
    /// A fresh token.
    token: Token,
}

#[async_trait]
impl SegmentStore for KubernetesStore {
    fn segment_table(&self) -> &str {
        &self.settings.segment_table
    }

    async fn prepare_segments(&self) -> Result<()> {
        // Fails if the server does not respond, or does not let us read.
        self.api.get(&self.tables.code("default", "default")).await.map(drop)
    }

    async fn create_segments(&self, namespace: &str, codes: &[NewSegment]) -> Result<()> {
        // Nodes that start together create the same codes, so most of them exist already.
        let present = self.codes(Some(namespace)).await?;
        let is_missing = |new: &&NewSegment| {
            !present.iter().any(|lease| annotation(lease, CODE) == Some(&new.code))
        };
        for new in codes.iter().filter(is_missing) {
            let (row, token) = (CodeRow::missing(new.first), Token::UNUSED);
            self.create_or_relabel(&self.new_code(namespace, &new.code, row, token)?).await?;
        }
        Ok(())
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let name = self.tables.code(namespace, code);
        let begin = Instant::now();
        loop {
            let (found, state) = self.code(&name, namespace, reservation.epoch).await?;
            let raised = match reservation.decide(state) {
                Ok(raised) => raised,
                Err(refused) => return Ok(refused),
            };
            let is_reserved = match &found {
                None => {
                    let lease = self.new_code(namespace, code, raised, reservation.token)?;
                    self.api.create(&lease).await?.is_some()
                }
                // The version proves that there was no reservation since the read.
                Some(lease) => {
                    let version = lease.metadata.resource_version.as_deref();
                    let mut patch = vec![expect_uid(uid(lease)), expect_version(version)];
                    let now_ms = self.api.clock.latest_ms()?;
                    patch.extend(set(code_annotations(raised, reservation.token, now_ms)));
                    self.api.patch(&name, patch).await?
                }
            };
            if is_reserved {
                return Ok(Reserved::From(raised.next - reservation.by));
            }
            self.pause(begin).await?;
        }
    }

    fn codes_at_once(&self) -> usize {
        // Above a few, one list returns all codes, however many are requested.
        usize::MAX
    }

    async fn read_segments(
        &self,
        namespace: &str,
        codes: &[&str],
        epoch: Token,
    ) -> Result<Vec<Result<CodeState>>> {
        let names: Vec<_> = codes.iter().map(|code| self.tables.code(namespace, code)).collect();
        let FoundCodes { leases, unread } = if names.len() <= READ_SINGLY {
            self.read_singly(&names).await?
        } else {
            let mut leases = self.codes(Some(namespace)).await?;
            self.add_lacking_codes(namespace, &names, &mut leases).await?;
            FoundCodes { leases, unread: HashSet::new() }
        };
        // Read after the codes, as for a reservation.
        let is_in_epoch = self.is_in_epoch(namespace, epoch).await?;
        let by_name: HashMap<_, _> = leases.iter().map(|lease| (name_of(lease), lease)).collect();
        let state = |name: &String| match by_name.get(&**name) {
            _ if !is_in_epoch => Ok(CodeState::OtherEpoch),
            _ if unread.contains(&**name) => {
                Err(StoreError::TimedOut { after: self.settings.longest_call() })
            }
            None => Ok(CodeState::Missing),
            Some(lease) => Ok(CodeState::Row(self.read_code(lease)?.row())),
        };
        Ok(names.iter().map(state).collect())
    }

    async fn give_back(&self, namespace: &str, code: &str, unused: &UnusedNumbers) -> Result<bool> {
        let UnusedNumbers { from, reserved, epoch, token } = *unused;
        let lowering = Lowering { reserved, epoch, token };
        self.lower(namespace, code, lowering, |_| from).await
    }

    async fn undo(&self, namespace: &str, code: &str, undo: &Undo) -> Result<bool> {
        let Undo { by, reserved, epoch, token } = *undo;
        let lowering = Lowering { reserved, epoch, token };
        self.lower(namespace, code, lowering, |next| next.saturating_sub(by)).await
    }

    async fn list_managed_codes(&self, namespace: &str) -> Result<Vec<ManagedCode>> {
        let leases = self.leases_of(&self.tables.settings, Some(namespace), "").await?;
        let read = |lease: &Lease| self.read_settings(namespace, lease);
        let mut codes: Vec<_> = leases.iter().map(read).collect::<Result<_>>()?;
        codes.sort_by(|one: &ManagedCode, other| one.code.cmp(&other.code));
        Ok(codes)
    }

    fn lists_may_lack_codes(&self) -> bool {
        // A list lacks settings whose labels were changed.
        true
    }

    async fn managed_code(&self, namespace: &str, code: &str) -> Result<Option<ManagedCode>> {
        let found = self.settings_by_name(namespace, code).await?;
        let Some(lease) = found else { return Ok(None) };
        let managed = self.read_settings(namespace, &lease)?;
        // The name of the Lease says whose settings these are: nothing changes it.
        Ok(Some(ManagedCode { code: code.to_owned(), ..managed }))
    }

    async fn write_managed_code(
        &self,
        namespace: &str,
        expected: Option<Token>,
        code: &ManagedCode,
    ) -> Result<bool> {
        let ManagedCode { code, settings, token } = code;
        let name = self.tables.settings(namespace, code);
        let token = (TOKEN, token.to_string());
        let settings = (SETTINGS, settings.clone());
        if let Some(expected) = expected {
            return self.set_under(&name, (expected, None), [token, settings]).await;
        }
        let annotations = [(CODE, code.clone()), token, settings];
        let lease = lease(name, (&self.tables.settings, namespace), None, annotations);
        self.create_or_relabel(&lease).await
    }

    async fn count_segments(&self, namespace: &str) -> Result<u64> {
        Ok(self.codes(Some(namespace)).await?.len() as u64)
    }

    async fn list_segments(&self) -> Result<Vec<ListedSegment>> {
        let codes = self.codes(None).await?;
        self.listed(&codes, &self.leases_of(&self.tables.settings, None, "").await?)
    }

    async fn segments_in(
        &self,
        namespace: &str,
        codes: RangeInclusive<&str>,
        limit: u32,
    ) -> Result<Vec<ListedSegment>> {
        // The API does not sort objects by the names of codes: it reads a single code, or all.
        if codes.start() == codes.end() {
            let code = codes.start();
            let found = self.api.get(&self.tables.code(namespace, code)).await?;
            let settings = self.api.get(&self.tables.settings(namespace, code)).await?;
            return self.listed(found.as_slice(), settings.as_slice());
        }
        let all = self.codes(Some(namespace)).await?;
        let settings = self.leases_of(&self.tables.settings, Some(namespace), "").await?;
        let mut listed = self.listed(&all, &settings)?;
        listed.retain(|listed| codes.contains(&&*listed.code));
        listed.truncate(limit as usize);
        Ok(listed)
    }
}

/// The Leases of codes that were read, and the names of those that were not.
struct FoundCodes<'a> {
    leases: Vec<Lease>,
    unread: HashSet<&'a str>,
}

/// A Lease for each key would fill etcd.
#[async_trait]
impl IdempotencyStore for KubernetesStore {
    fn keeps_keys(&self) -> bool {
        false
    }

    async fn claim_keys(
        &self,
        _: &str,
        _: &str,
        _: &[&str],
        _: Token,
        _: Duration,
    ) -> Result<Vec<KeyState>> {
        Err(keeps_none())
    }

    async fn finish_keys(
        &self,
        _: &str,
        _: &str,
        _: Token,
        _: &[KeyText],
    ) -> Result<Vec<KeyState>> {
        Err(keeps_none())
    }

    async fn delete_old_keys(&self, _: Duration) -> Result<u64> {
        Ok(0)
    }
}

impl KubernetesStore {
    /// Lowers the next number to what `lowered` makes of it. The patch expects the token of the
    /// reservation, so the next number is still the one that was read.
    async fn lower(
        &self,
        namespace: &str,
        code: &str,
        Lowering { reserved, epoch, token }: Lowering,
        lowered: impl FnOnce(u64) -> u64 + Send,
    ) -> Result<bool> {
        let name = self.tables.code(namespace, code);
        let found = self.api.get(&name).await?;
        let Some(found) = found.filter(|lease| is_under(lease, reserved)) else {
            return Ok(false);
        };
        // Read after the code, as for a reservation.
        if !self.is_in_epoch(namespace, epoch).await? {
            return Ok(false);
        }
        let next = lowered(self.read_code(&found)?.next);
        let mut patch = vec![expect_uid(uid(&found)), expect_token(reserved)];
        patch.extend(set([
            (TOKEN, token.to_string()),
            (NEXT, next.to_string()),
            (UPDATED, self.api.clock.latest_ms()?.to_string()),
        ]));
        self.api.patch(&name, patch).await
    }

    async fn codes(&self, namespace: Option<&str>) -> Result<Vec<Lease>> {
        self.leases_of(&self.tables.segment, namespace, "").await
    }

    /// Reads a few codes one by one, as many as a slow server returns before the caller gives up. A
    /// list would take such a server longer yet, as soon as the namespace has more than a few
    /// pages.
    ///
    /// Begins with a random code, so that repeated calls read each of them. A request without an
    /// answer costs its own code only.
    ///
    /// # Errors
    ///
    /// If the server returned no code, or refused a request.
    async fn read_singly<'a>(&self, names: &'a [String]) -> Result<FoundCodes<'a>> {
        let first = lock(&self.random).random_range(0..names.len().max(1));
        let (begin, longest_call) = (Instant::now(), self.settings.longest_call());
        let (mut slowest, mut unanswered, mut failure) = (Duration::ZERO, 0, None);
        let mut found = FoundCodes { leases: Vec::new(), unread: HashSet::new() };
        for name in names[first..].iter().chain(&names[..first]) {
            let sent = Instant::now();
            // The caller reads the record as well.
            if unanswered == MOST_UNANSWERED || begin.elapsed() + 2 * slowest >= longest_call {
                found.unread.insert(name);
                continue;
            }
            let until = begin + longest_call - slowest - slowest / 8;
            let read = timeout_at(until, self.api.get(name)).await;
            match read.unwrap_or_else(|_| Err(StoreError::TimedOut { after: sent.elapsed() })) {
                Ok(lease) => {
                    found.leases.extend(lease);
                    unanswered = 0;
                }
                Err(error @ (StoreError::TimedOut { .. } | StoreError::Unavailable(_))) => {
                    found.unread.insert(name);
                    unanswered += 1;
                    failure = Some(error);
                }
                Err(error) => return Err(error),
            }
            slowest = slowest.max(sent.elapsed());
        }
        match failure {
            Some(error) if found.unread.len() == names.len() => Err(error),
            _ => Ok(found),
        }
    }

    /// Reads the settings of a managed code from their Lease.
    fn read_settings(&self, namespace: &str, lease: &Lease) -> Result<ManagedCode> {
        let row = columns(lease, [CODE, SETTINGS, TOKEN]);
        Reader::new(&self.tables.settings, namespace, row).managed_code()
    }

    /// Reads a code from its Lease, whose name must be that of the namespace and code in its
    /// annotations: a person may have changed these, and nothing changes the name.
    fn read_code(&self, lease: &Lease) -> Result<ListedSegment> {
        let row = columns(lease, [NAMESPACE, CODE, NEXT, STEP, UPDATED, CREATED, EPOCH]);
        let code = Reader::new(name_of(lease), "", row).listed_segment("next")?;
        if name_of(lease) != self.tables.code(&code.namespace, &code.code) {
            return Err(StoreError::Corrupt {
                table: name_of(lease).to_owned(),
                row: format!("{} {}", code.namespace, code.code),
                column: "code",
                value: code.code,
                reason: "not the namespace and code in the name of the Lease".to_owned(),
            });
        }
        Ok(code)
    }

    /// Reads codes with their settings, by namespace and name.
    fn listed(&self, codes: &[Lease], settings: &[Lease]) -> Result<Vec<ListedSegment>> {
        let code_of = |lease: &Lease| {
            Some((annotation(lease, NAMESPACE)?.to_owned(), annotation(lease, CODE)?.to_owned()))
        };
        let words =
            |lease: &Lease| Some((code_of(lease)?, annotation(lease, SETTINGS)?.to_owned()));
        let mut managed: BTreeMap<_, _> = settings.iter().filter_map(words).collect();
        let mut listed = BTreeMap::new();
        for lease in codes {
            let mut segment = self.read_code(lease)?;
            let key = (segment.namespace.clone(), segment.code.clone());
            segment.settings = managed.remove(&key);
            listed.insert(key, segment);
        }
        Ok(listed.into_values().collect())
    }

    /// Reads a code's Lease, and its state in an epoch.
    async fn code(
        &self,
        name: &str,
        namespace: &str,
        epoch: Token,
    ) -> Result<(Option<Lease>, CodeState)> {
        let found = self.api.get(name).await?;
        // The record is read after the code. If the code is restored from a backup since, its Lease
        // has another UID, which refuses the write.
        let state = match &found {
            _ if !self.is_in_epoch(namespace, epoch).await? => CodeState::OtherEpoch,
            None => CodeState::Missing,
            Some(lease) => CodeState::Row(self.read_code(lease)?.row()),
        };
        Ok((found, state))
    }

    /// Returns whether the namespace's record has this epoch, and is still the object with which
    /// the epoch began.
    async fn is_in_epoch(&self, namespace: &str, epoch: Token) -> Result<bool> {
        let Some(record) = self.record(namespace).await? else { return Ok(false) };
        let history = &record.layout.history;
        let is_continued = self.compared(history).is_none_or(|identity| identity == record.uid);
        Ok(is_continued && history.epoch() == epoch)
    }

    /// Builds the Lease of a new code.
    fn new_code(&self, namespace: &str, code: &str, row: CodeRow, token: Token) -> Result<Lease> {
        let now_ms = self.api.clock.latest_ms()?;
        let created = [(CODE, code.to_owned()), (CREATED, now_ms.to_string())];
        let annotations = code_annotations(row, token, now_ms).into_iter().chain(created);
        let name = self.tables.code(namespace, code);
        Ok(lease(name, (&self.tables.segment, namespace), None, annotations))
    }
}

/// Returns the annotations that a reservation writes.
fn code_annotations(row: CodeRow, token: Token, now_ms: i64) -> [(&'static str, String); 5] {
    let CodeRow { next, step, epoch } = row;
    [
        (TOKEN, token.to_string()),
        (NEXT, next.to_string()),
        (STEP, step.to_string()),
        (EPOCH, epoch.to_string()),
        (UPDATED, now_ms.to_string()),
    ]
}
