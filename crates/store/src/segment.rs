//! Stores of segment codes: the next number of each, and the settings that operators manage.

use std::{fmt::Debug, ops::RangeInclusive};

use async_trait::async_trait;
use raindrop_core::{lease::Token, segment::CodeRow};

use super::{Result, StoreError};

/// A code to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSegment {
    /// Its name: any text of at most [`Self::LONGEST`] bytes.
    pub code: String,
    /// Its first number.
    pub first: u64,
}

impl NewSegment {
    /// The longest name, in bytes.
    pub const LONGEST: usize = 96;
}

/// A request to reserve numbers of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// By how much the next number is raised.
    pub by: u64,
    /// How many of these numbers are reserved; the others are skipped. The row stores this as its
    /// step.
    pub step: u64,
    /// The next number must not rise above this, at most 2^63 − 1.
    pub end: u64,
    /// A fresh random token.
    pub token: Token,
    /// The first number of the code if it is missing: then the same statement creates it.
    pub or_begin_at: Option<u64>,
    /// The epoch of the namespace's record, which the row gets, too.
    pub epoch: Token,
    /// The epoch that the row must have, unless it is missing: the number of skipped numbers
    /// depends on it.
    pub row_epoch: Token,
}

impl Reservation {
    /// Decides about a code in this state: returns its row after the reservation, or the refusal.
    pub(super) fn decide(&self, state: CodeState) -> Result<CodeRow, Reserved> {
        let row = match self.refusal(state) {
            Reserved::Refused(row) => row,
            other => return Err(other),
        };
        let next = row.next.checked_add(self.by).filter(|next| *next <= self.end);
        let next = next.filter(|_| row.epoch == self.row_epoch).ok_or(Reserved::Refused(row))?;
        Ok(CodeRow { next, step: self.step, epoch: self.epoch })
    }

    /// Returns the refusal by a code in this state.
    pub(super) fn refusal(&self, state: CodeState) -> Reserved {
        match (state, self.or_begin_at) {
            (CodeState::OtherEpoch, _) => Reserved::OtherEpoch,
            (CodeState::Row(row), _) => Reserved::Refused(row),
            (CodeState::Missing, None) => Reserved::NoSuchCode,
            (CodeState::Missing, Some(next)) => {
                Reserved::Refused(CodeRow { next, step: 0, epoch: self.row_epoch })
            }
        }
    }
}

/// The state of a code in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeState {
    /// Its row.
    Row(CodeRow),
    /// There is no such code.
    Missing,
    /// The namespace's record has another epoch, or the server has not the identity in the record.
    OtherEpoch,
}

impl CodeState {
    /// Returns its row, if there is one in this epoch.
    pub const fn row(self) -> Option<CodeRow> {
        match self {
            Self::Row(row) => Some(row),
            Self::Missing | Self::OtherEpoch => None,
        }
    }
}

/// The outcome of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The first reserved number; the others follow it.
    From(u64),
    /// Refused because of this row: it is too close to the end, or of another epoch. Nothing
    /// changed.
    Refused(CodeRow),
    /// There is no such code, and the request does not create one.
    NoSuchCode,
    /// The namespace's record has another epoch, or the server has not the identity in the record.
    /// Nothing changed.
    OtherEpoch,
}

/// Unused numbers to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedNumbers {
    /// The first of them.
    pub from: u64,
    /// The token that the reservation wrote.
    pub reserved: Token,
    /// The epoch of the reservation.
    pub epoch: Token,
    /// A fresh random token.
    pub token: Token,
}

/// The last numbers of a reservation, to undo it in whole or in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undo {
    /// How many numbers: by how much the next number is lowered.
    pub by: u64,
    /// The token that the reservation wrote.
    pub reserved: Token,
    /// The epoch of the reservation.
    pub epoch: Token,
    /// A fresh random token.
    pub token: Token,
}

/// A code with its next number, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSegment {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub code: String,
    /// The first number of the next reservation.
    pub next: u64,
    /// The number of numbers in the last reservation.
    pub step: u64,
    /// The time of that reservation, Unix ms of the store's clock.
    pub updated_ms: i64,
    /// When the code was created, Unix ms of the store's clock.
    pub created_ms: i64,
    /// The epoch of the last reservation; [`Token::UNUSED`] before the first.
    pub epoch: Token,
    /// The text of its settings, if operators manage it; see [`ManagedCode::settings`].
    pub settings: Option<String>,
}

impl ListedSegment {
    /// Returns the part of it that a reservation depends on.
    pub const fn row(&self) -> CodeRow {
        CodeRow { next: self.next, step: self.step, epoch: self.epoch }
    }
}

/// The settings of a code that operators manage while nodes run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedCode {
    /// Its name.
    pub code: String,
    /// The text of its settings, at most 255 bytes; see
    /// [`CodeSettings`](raindrop_core::segment::CodeSettings).
    pub settings: String,
    /// A random token, fresh in each write.
    pub token: Token,
}

/// A table in which another ID service stores the largest number that it reserved for each name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignTable {
    /// The service: `leaf`, `tinyid` or `cosid`.
    pub service: &'static str,
    /// The table's name.
    pub name: String,
    /// The columns to read: the name, the largest number and, in some services, the size of a
    /// reservation and the difference between neighbours.
    pub columns: &'static [&'static str],
}

/// The numbers that another service has reserved for one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignSegment {
    /// The service's name of the sequence.
    pub name: String,
    /// No reserved number is above this.
    pub max_id: u64,
    /// The size of a reservation; 0 if the table does not have it.
    pub step: u64,
    /// The difference between neighbours. If it is above 1, other databases may issue other numbers
    /// of the same name.
    pub delta: u64,
}

/// Keeps the next number of each segment code.
///
/// When [`Self::reserve`] fails, the numbers may have been reserved nevertheless. Then they are a
/// gap.
#[async_trait]
pub trait SegmentStore: Debug + Send + Sync {
    /// Returns the name of the segment table. With another table, numbers would start again.
    fn segment_table(&self) -> &str;

    /// Creates or checks the table of segments, after [`Store::prepare`](super::Store::prepare).
    /// Safe to repeat, and to run on many nodes at once.
    async fn prepare_segments(&self) -> Result<()>;

    /// Inserts the codes that are missing, and leaves the others as they are. Safe to repeat. A new
    /// row has no epoch. So if the store failed over since the namespace began, the first
    /// reservation skips numbers, because an earlier row of the code may be lost.
    async fn create_segments(&self, namespace: &str, codes: &[NewSegment]) -> Result<()>;

    /// Reserves numbers: raises the next number of a code in one atomic statement. The statement
    /// compares the epoch with that of the namespace's record, and the identity in the record with
    /// that of the server, unless it is empty.
    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved>;

    /// Returns the most codes that [`Self::read_segments`] takes.
    fn codes_at_once(&self) -> usize {
        500
    }

    /// Reads, in one statement, the state by which the store would decide a reservation of this
    /// epoch, for each of these codes in their order. A row that cannot be parsed is an error of
    /// that code only, and so is one that a slow store did not return in time
    /// ([`StoreError::TimedOut`]), if it returned another one.
    async fn read_segments(
        &self,
        namespace: &str,
        codes: &[&str],
        epoch: Token,
    ) -> Result<Vec<Result<CodeState>>>;

    /// Like [`Self::read_segments`], for one code.
    async fn read_segment(&self, namespace: &str, code: &str, epoch: Token) -> Result<CodeState> {
        let states = self.read_segments(namespace, &[code], epoch).await?;
        states.into_iter().next().expect("one state for each code")
    }

    /// Returns unused numbers: lowers the next number of a code to the first of them and writes a
    /// fresh token. Does so only if the row's token is still that of the reservation, and if the
    /// namespace's record and the server are as [`Self::reserve`] demands. Returns `false`
    /// otherwise.
    async fn give_back(&self, namespace: &str, code: &str, unused: &UnusedNumbers) -> Result<bool>;

    /// Undoes the end of a reservation: lowers the next number of a code and writes a fresh token.
    /// Does so on the conditions of [`Self::give_back`], and returns `false` otherwise. The caller
    /// need not know whether the reservation took place: while the row has its token, the next
    /// number is the one that it wrote.
    async fn undo(&self, namespace: &str, code: &str, undo: &Undo) -> Result<bool>;

    /// Lists the managed codes of a namespace, by name.
    async fn list_managed_codes(&self, namespace: &str) -> Result<Vec<ManagedCode>>;

    /// Returns whether [`Self::list_managed_codes`] may lack a code that [`Self::managed_code`]
    /// reads.
    fn lists_may_lack_codes(&self) -> bool {
        false
    }

    /// Reads the settings of a code by its name; `None` if the code is not managed.
    async fn managed_code(&self, namespace: &str, code: &str) -> Result<Option<ManagedCode>> {
        let managed = self.list_managed_codes(namespace).await?;
        Ok(managed.into_iter().find(|managed| managed.code == code))
    }

    /// Writes the settings of a managed code if its token is still `expected`; `None` stands for a
    /// code without settings so far. Returns `false` if another write came first.
    async fn write_managed_code(
        &self,
        namespace: &str,
        expected: Option<Token>,
        code: &ManagedCode,
    ) -> Result<bool>;

    /// Counts the codes of a namespace.
    async fn count_segments(&self, namespace: &str) -> Result<u64>;

    /// Lists every code for people, by namespace and name.
    async fn list_segments(&self) -> Result<Vec<ListedSegment>>;

    /// Lists codes of a namespace for people, by name: the first `limit` of those whose names are
    /// in this range.
    async fn segments_in(
        &self,
        namespace: &str,
        codes: RangeInclusive<&str>,
        limit: u32,
    ) -> Result<Vec<ListedSegment>>;

    /// Reads the table of another ID service, sorted by name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unusable`] unless this is a SQL database that has such a table.
    ///
    /// # Panics
    ///
    /// If the service is not one of those that [`ForeignTable`] names.
    async fn foreign_segments(&self, table: &ForeignTable) -> Result<Vec<ForeignSegment>> {
        Err(StoreError::Unusable(format!(
            "table {} cannot be read here: only a MySQL, MariaDB, PostgreSQL or SQLite database has \
             tables",
            table.name
        )))
    }
}
