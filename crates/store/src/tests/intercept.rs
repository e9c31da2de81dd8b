//! Intercepts every call of a store: for tests and simulations.

use std::{any::Any, fmt::Debug, ops::RangeInclusive, time::Duration};

use async_trait::async_trait;
use raindrop_core::lease::{Row, RowWrite, Token};

use super::{
    CodeState, IdempotencyStore, KeyState, KeyText, LayoutRecord, ListedRow, ListedSegment,
    ManagedCode, MemoryStore, NewRows, NewSegment, Reservation, Reserved, Result, Scope,
    SegmentStore, Store, Survey, Undo, UnreleasedRow, UnusedNumbers,
};

/// A call of a [`Store`], as a value: it can be run now, later, twice or never.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "they are the store's methods with their arguments")]
pub enum Call {
    Prepare,
    CreateRecord(String, LayoutRecord),
    ReadRecord(String),
    SwapRecord(String, Token, LayoutRecord),
    CreateRows(Scope, NewRows),
    Survey(Scope),
    UnreleasedRows(String, u32),
    FreeRows(Scope, Option<String>, u32),
    ReadRow(Scope, u64),
    SwapRow(Scope, u64, Token, RowWrite),
    ListRows,
    PrepareSegments,
    CreateSegments(String, Vec<NewSegment>),
    Reserve(String, String, Reservation),
    ReadSegments(String, Vec<String>, Token),
    GiveBack(String, String, UnusedNumbers),
    Undo(String, String, Undo),
    ListManagedCodes(String),
    ManagedCode(String, String),
    WriteManagedCode(String, Option<Token>, ManagedCode),
    CountSegments(String),
    ListSegments,
    SegmentsIn(String, RangeInclusive<String>, u32),
    ClaimKeys(String, String, Vec<String>, Token, Duration),
    FinishKeys(String, String, Token, Vec<KeyText>),
    DeleteOldKeys(Duration),
}

/// The boxed result of the call's method.
pub type Reply = Box<dyn Any + Send>;

/// A store that decides about each call: whether it runs, when, and what its caller learns.
#[async_trait]
pub trait Intercept: Debug + Send + Sync {
    /// Returns the store behind it.
    fn memory(&self) -> &MemoryStore;

    /// Returns whether lists of managed codes may lack some.
    fn hides_codes(&self) -> bool {
        false
    }

    /// Answers a call. `call.run(self.memory())` runs it without interference.
    async fn answer(&self, call: Call) -> Result<Reply>;
}

impl Call {
    /// Runs the call on a store.
    pub async fn run(&self, store: &dyn Store) -> Result<Reply> {
        Ok(match self {
            Self::Prepare => Box::new(store.prepare().await?),
            Self::CreateRecord(name, new) => Box::new(store.create_record(name, new).await?),
            Self::ReadRecord(name) => Box::new(store.read_record(name).await?),
            Self::SwapRecord(name, expected, new) => {
                Box::new(store.swap_record(name, *expected, new).await?)
            }
            Self::CreateRows(scope, new) => Box::new(store.create_rows(scope, new).await?),
            Self::Survey(scope) => Box::new(store.survey(scope).await?),
            Self::UnreleasedRows(namespace, limit) => {
                Box::new(store.unreleased_rows(namespace, *limit).await?)
            }
            Self::FreeRows(scope, holder, limit) => {
                Box::new(store.free_rows(scope, holder.as_deref(), *limit).await?)
            }
            Self::ReadRow(scope, worker) => Box::new(store.read_row(scope, *worker).await?),
            Self::SwapRow(scope, worker, expected, write) => {
                Box::new(store.swap_row(scope, *worker, *expected, write).await?)
            }
            Self::ListRows => Box::new(store.list_rows().await?),
            Self::PrepareSegments => Box::new(store.prepare_segments().await?),
            Self::CreateSegments(name, new) => Box::new(store.create_segments(name, new).await?),
            Self::Reserve(name, code, reservation) => {
                Box::new(store.reserve(name, code, reservation).await?)
            }
            Self::ReadSegments(name, codes, epoch) => {
                let codes: Vec<_> = codes.iter().map(String::as_str).collect();
                Box::new(store.read_segments(name, &codes, *epoch).await?)
            }
            Self::GiveBack(name, code, unused) => {
                Box::new(store.give_back(name, code, unused).await?)
            }
            Self::Undo(name, code, undo) => Box::new(store.undo(name, code, undo).await?),
            Self::ListManagedCodes(namespace) => {
                Box::new(store.list_managed_codes(namespace).await?)
            }
            Self::ManagedCode(namespace, code) => {
                Box::new(store.managed_code(namespace, code).await?)
            }
            Self::WriteManagedCode(namespace, expected, code) => {
                Box::new(store.write_managed_code(namespace, *expected, code).await?)
            }
            Self::CountSegments(namespace) => Box::new(store.count_segments(namespace).await?),
            Self::ListSegments => Box::new(store.list_segments().await?),
            Self::SegmentsIn(namespace, codes, limit) => {
                let codes = codes.start().as_str()..=codes.end().as_str();
                Box::new(store.segments_in(namespace, codes, *limit).await?)
            }
            Self::ClaimKeys(namespace, code, keys, owner, patience) => {
                let keys: Vec<_> = keys.iter().map(String::as_str).collect();
                Box::new(store.claim_keys(namespace, code, &keys, *owner, *patience).await?)
            }
            Self::FinishKeys(namespace, code, owner, texts) => {
                Box::new(store.finish_keys(namespace, code, *owner, texts).await?)
            }
            Self::DeleteOldKeys(age) => Box::new(store.delete_old_keys(*age).await?),
        })
    }

    /// Runs a write that may be refused; returns whether it took place.
    pub async fn takes_place(&self, store: &dyn Store) -> Result<bool> {
        self.run(store).await.map(typed)
    }
}

/// Returns the reply in the type that the call returns.
fn typed<T: 'static>(reply: Reply) -> T {
    *reply.downcast().expect("each call has one type of reply")
}

#[async_trait]
impl<I: Intercept> Store for I {
    fn clock_is_local(&self) -> bool {
        self.memory().clock_is_local()
    }

    fn is_verified(&self) -> bool {
        self.memory().is_verified()
    }

    async fn prepare(&self) -> Result<Vec<String>> {
        self.answer(Call::Prepare).await.map(typed)
    }

    async fn create_record(&self, namespace: &str, record: &LayoutRecord) -> Result<LayoutRecord> {
        self.answer(Call::CreateRecord(namespace.to_owned(), record.clone())).await.map(typed)
    }

    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>> {
        self.answer(Call::ReadRecord(namespace.to_owned())).await.map(typed)
    }

    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool> {
        let call = Call::SwapRecord(namespace.to_owned(), expected, record.clone());
        self.answer(call).await.map(typed)
    }

    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool> {
        self.answer(Call::CreateRows(scope.clone(), new.clone())).await.map(typed)
    }

    async fn survey(&self, scope: &Scope) -> Result<Survey> {
        self.answer(Call::Survey(scope.clone())).await.map(typed)
    }

    async fn unreleased_rows(&self, namespace: &str, limit: u32) -> Result<Vec<UnreleasedRow>> {
        self.answer(Call::UnreleasedRows(namespace.to_owned(), limit)).await.map(typed)
    }

    async fn free_rows(&self, scope: &Scope, holder: Option<&str>, limit: u32) -> Result<Vec<Row>> {
        let call = Call::FreeRows(scope.clone(), holder.map(str::to_owned), limit);
        self.answer(call).await.map(typed)
    }

    async fn read_row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>> {
        self.answer(Call::ReadRow(scope.clone(), worker)).await.map(typed)
    }

    async fn swap_row(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool> {
        let call = Call::SwapRow(scope.clone(), worker, expected, write.clone());
        self.answer(call).await.map(typed)
    }

    async fn list_rows(&self) -> Result<Vec<ListedRow>> {
        self.answer(Call::ListRows).await.map(typed)
    }

    async fn close(&self) {}
}

#[async_trait]
impl<I: Intercept> SegmentStore for I {
    fn segment_table(&self) -> &str {
        self.memory().segment_table()
    }

    async fn prepare_segments(&self) -> Result<()> {
        self.answer(Call::PrepareSegments).await.map(typed)
    }

    async fn create_segments(&self, namespace: &str, codes: &[NewSegment]) -> Result<()> {
        let call = Call::CreateSegments(namespace.to_owned(), codes.to_owned());
        self.answer(call).await.map(typed)
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let call = Call::Reserve(namespace.to_owned(), code.to_owned(), *reservation);
        self.answer(call).await.map(typed)
    }

    async fn read_segments(
        &self,
        namespace: &str,
        codes: &[&str],
        epoch: Token,
    ) -> Result<Vec<Result<CodeState>>> {
        let codes = codes.iter().map(|code| (*code).to_owned()).collect();
        let call = Call::ReadSegments(namespace.to_owned(), codes, epoch);
        self.answer(call).await.map(typed)
    }

    async fn give_back(&self, namespace: &str, code: &str, unused: &UnusedNumbers) -> Result<bool> {
        let call = Call::GiveBack(namespace.to_owned(), code.to_owned(), *unused);
        self.answer(call).await.map(typed)
    }

    async fn undo(&self, namespace: &str, code: &str, undo: &Undo) -> Result<bool> {
        let call = Call::Undo(namespace.to_owned(), code.to_owned(), *undo);
        self.answer(call).await.map(typed)
    }

    async fn list_managed_codes(&self, namespace: &str) -> Result<Vec<ManagedCode>> {
        self.answer(Call::ListManagedCodes(namespace.to_owned())).await.map(typed)
    }

    fn lists_may_lack_codes(&self) -> bool {
        self.hides_codes()
    }

    async fn managed_code(&self, namespace: &str, code: &str) -> Result<Option<ManagedCode>> {
        let call = Call::ManagedCode(namespace.to_owned(), code.to_owned());
        self.answer(call).await.map(typed)
    }

    async fn write_managed_code(
        &self,
        namespace: &str,
        expected: Option<Token>,
        code: &ManagedCode,
    ) -> Result<bool> {
        let call = Call::WriteManagedCode(namespace.to_owned(), expected, code.clone());
        self.answer(call).await.map(typed)
    }

    async fn count_segments(&self, namespace: &str) -> Result<u64> {
        self.answer(Call::CountSegments(namespace.to_owned())).await.map(typed)
    }

    async fn list_segments(&self) -> Result<Vec<ListedSegment>> {
        self.answer(Call::ListSegments).await.map(typed)
    }

    async fn segments_in(
        &self,
        namespace: &str,
        codes: RangeInclusive<&str>,
        limit: u32,
    ) -> Result<Vec<ListedSegment>> {
        let codes = (*codes.start()).to_owned()..=(*codes.end()).to_owned();
        let call = Call::SegmentsIn(namespace.to_owned(), codes, limit);
        self.answer(call).await.map(typed)
    }
}

#[async_trait]
impl<I: Intercept> IdempotencyStore for I {
    async fn claim_keys(
        &self,
        namespace: &str,
        code: &str,
        keys: &[&str],
        owner: Token,
        patience: Duration,
    ) -> Result<Vec<KeyState>> {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let call = Call::ClaimKeys(namespace.to_owned(), code.to_owned(), keys, owner, patience);
        self.answer(call).await.map(typed)
    }

    async fn finish_keys(
        &self,
        namespace: &str,
        code: &str,
        owner: Token,
        texts: &[KeyText],
    ) -> Result<Vec<KeyState>> {
        let call = Call::FinishKeys(namespace.to_owned(), code.to_owned(), owner, texts.to_owned());
        self.answer(call).await.map(typed)
    }

    async fn delete_old_keys(&self, age: Duration) -> Result<u64> {
        self.answer(Call::DeleteOldKeys(age)).await.map(typed)
    }
}
