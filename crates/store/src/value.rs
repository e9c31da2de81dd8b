//! Values on their way between a database and the types of rows, records and codes.
//!
//! All engines write by [`Value`] and read by [`Reader`], whose errors name table, row, column and
//! value. A value is read exactly or is an error, never a default: IDs would repeat if a mark were
//! read too low. Numbers arrive as integers or as text, since some drivers and Redis know only
//! text.
//!
//! A row that cannot be read does not stop nodes from using others: [`readable`] leaves it out of
//! the free rows. It still counts as a row that was not released ([`Reader::unreleased_row`]),
//! because a start must not take a restored store for an empty one. Tests:
//! tests/store/corrupt_rows.rs puts any value into any column.

use std::{fmt, vec};

use raindrop_core::lease::{HighWaterMarks, History, Row, Token};

use super::{CreatedRows, LayoutRecord, ListedSegment, ManagedCode, Result, Scope, StoreError};
#[cfg(any(feature = "redis", feature = "sql"))]
use raindrop_core::segment::CodeRow;

/// The longest stored holder, in characters.
const HOLDER_MAX: usize = 255;

/// Cuts a holder to [`HOLDER_MAX`] characters: it is only a label.
pub(super) fn shortened(holder: &str) -> &str {
    holder.char_indices().nth(HOLDER_MAX).map_or(holder, |(end, _)| &holder[..end])
}

/// Returns a layout record's columns: token, words, complete, since tick, first tick, identity,
/// epoch, history.
pub(super) fn record_values(record: &LayoutRecord) -> [Value; 8] {
    let LayoutRecord { token, canonical, complete, since_tick, first_tick, history } = record;
    values![
        *token,
        canonical,
        complete.join(","),
        *since_tick,
        *first_tick,
        &history.identity,
        history.epoch(),
        history.text(),
    ]
}

/// A value that a database takes or returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    /// Every value that is not an integer, as text. Its reader parses it.
    Text(String),
}

/// An array of [`Value`]s.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::value::Value::from($value)),*] };
}
pub(super) use values;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Integer(integer) => integer.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

macro_rules! from_text {
    ($($type:ty),*) => {$(
        impl From<$type> for Value {
            fn from(text: $type) -> Self {
                Self::Text(text.to_string())
            }
        }
    )*};
}
from_text!(&str, &String, String, Token, &HighWaterMarks);

impl From<i64> for Value {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<u64> for Value {
    /// Saturates: no worker id, lane or number exceeds `i64::MAX`.
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, T::into)
    }
}

/// A type that a value can be read as; the error says why it cannot be.
pub(super) trait FromValue: Sized {
    fn from_value(value: &Value) -> Result<Self, String>;
}

impl FromValue for String {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            _ => Err("not a text".to_owned()),
        }
    }
}

impl FromValue for i64 {
    /// Some engines return integers as text.
    fn from_value(value: &Value) -> Result<Self, String> {
        let integer = match value {
            Value::Integer(integer) => Some(*integer),
            Value::Text(text) => text.parse().ok(),
            Value::Null => None,
        };
        integer.ok_or_else(|| "not a signed 64-bit integer".to_owned())
    }
}

impl FromValue for u64 {
    fn from_value(value: &Value) -> Result<Self, String> {
        Self::try_from(i64::from_value(value)?).map_err(|_| "negative".to_owned())
    }
}

macro_rules! parsed_from_text {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Value) -> Result<Self, String> {
                String::from_value(value)?.parse().map_err(|reason| format!("{reason}"))
            }
        }
    )*};
}
parsed_from_text!(Token, HighWaterMarks);

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Result<Self, String> {
        if *value == Value::Null { Ok(None) } else { T::from_value(value).map(Some) }
    }
}

/// Reads one row's values, in the order of its statement.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    table: &'a str,
    row_name: String,
    values: vec::IntoIter<Value>,
}

impl<'a> Reader<'a> {
    /// `row_name` names the row in errors.
    pub(super) fn new(table: &'a str, row_name: impl Into<String>, values: Vec<Value>) -> Self {
        Self { table, row_name: row_name.into(), values: values.into_iter() }
    }

    /// Reads the next value. `column` names it in errors.
    pub(super) fn get<T: FromValue>(&mut self, column: &'static str) -> Result<T> {
        // A column that the statement does not return reads as null.
        let value = Value::from(self.values.next());
        T::from_value(&value).map_err(|reason| self.corrupt(column, value, reason))
    }

    /// Reads a text that names the row in errors from here on.
    #[cfg(feature = "sql")]
    pub(super) fn named(&mut self, column: &'static str) -> Result<String> {
        self.row_name = self.get(column)?;
        Ok(self.row_name.clone())
    }

    /// Reads a layout record.
    pub(super) fn layout_record(&mut self) -> Result<LayoutRecord> {
        let (token, canonical) = (self.get("token")?, self.get("words")?);
        let complete: String = self.get("complete")?;
        let keys: Vec<String> = complete.split_terminator(',').map(str::to_owned).collect();
        // Only the exact text is valid, because a change of the record compares it.
        if keys.join(",") != complete || !keys.iter().all(|key| CreatedRows::read(key).is_some()) {
            let reason = "reserved keys such as 0/0 or 0/0:1024:1 are joined by commas".to_owned();
            return Err(self.corrupt("complete", complete.into(), reason));
        }
        let (since_tick, first_tick) = (self.get("since_tick")?, self.get("first_tick")?);
        let (identity, epoch): (String, Token) = (self.get("identity")?, self.get("epoch")?);
        let text: String = self.get("history")?;
        if epoch == Token::UNUSED {
            return Err(self.corrupt("epoch", epoch.into(), "only unwritten rows have it".into()));
        }
        let history = History::from_parts(&identity, epoch, &text);
        let history =
            history.map_err(|error| self.corrupt("history", text.into(), error.to_string()))?;
        Ok(LayoutRecord { token, canonical, complete: keys, since_tick, first_tick, history })
    }

    /// Reads a worker's row, which errors name by its [`Scope::key`] until the worker id is known.
    fn worker_row(&mut self) -> Result<Row> {
        let worker = self.get("worker_id")?;
        self.row_name = format!("{} {worker}", self.row_name);
        let (token, epoch, holder) = (self.get("token")?, self.get("epoch")?, self.get("holder")?);
        let lane: u64 = self.get("lane")?;
        let marks: HighWaterMarks = self.get("marks")?;
        let known_lane = usize::try_from(lane).ok().filter(|lane| *lane < marks.lanes());
        let lane = known_lane.ok_or_else(|| {
            let reason = format!("there are {} lanes", marks.lanes());
            self.corrupt("lane", lane.into(), reason)
        })?;
        Ok(Row {
            worker,
            token,
            epoch,
            holder,
            lane,
            marks,
            free: self.get::<i64>("expires_at")? != 0,
            heartbeat_ms: self.get("heartbeat_at")?,
            expires_ms: self.get("expires_at")?,
        })
    }

    /// Reads a worker's row after its namespace and reserved key.
    #[cfg(any(feature = "redis", feature = "sql"))]
    pub(super) fn listed_row(&mut self) -> Result<super::ListedRow> {
        let (namespace, reserved_key) = (self.get("namespace")?, self.get("reserved_key")?);
        self.row_name = format!("{namespace} {reserved_key}");
        Ok(super::ListedRow { namespace, reserved_key, row: self.worker_row()? })
    }

    /// Reads a row of this namespace that was not released, after its reserved key. `W` is the form
    /// in which the engine stores worker ids. A row whose worker id has another form counts as
    /// well: without it, a restored store could look as if every row had been released.
    #[cfg(any(feature = "redis", feature = "sql"))]
    pub(super) fn unreleased_row<W: FromValue + Into<u64>>(
        &mut self,
        namespace: &str,
    ) -> Result<super::UnreleasedRow> {
        let reserved_key: String = self.get("reserved_key")?;
        self.row_name = format!("{namespace} {reserved_key}");
        let worker = self.get::<W>("worker_id").map(W::into).map_err(|error| {
            format!("{error}: no node can lease or release such a row, so delete it")
        });
        Ok(super::UnreleasedRow { reserved_key, worker, heartbeat_ms: self.get("heartbeat_at")? })
    }

    /// Reads the columns of a segment code that follow namespace and name; `next` is the column of
    /// the next number.
    pub(super) fn listed_segment(&mut self, next: &'static str) -> Result<ListedSegment> {
        let (namespace, code) = (self.get("namespace")?, self.get("code")?);
        self.row_name = format!("{namespace} {code}");
        Ok(ListedSegment {
            namespace,
            code,
            next: self.get(next)?,
            step: self.get("step")?,
            updated_ms: self.get("updated_at")?,
            created_ms: self.get("created_at")?,
            epoch: self.get("epoch")?,
            settings: self.get("settings")?,
        })
    }

    /// Reads the columns of a segment code that a reservation depends on; `next` is the column of
    /// the next number.
    #[cfg(any(feature = "redis", feature = "sql"))]
    pub(super) fn code_row(&mut self, next: &'static str) -> Result<CodeRow> {
        Ok(CodeRow { next: self.get(next)?, step: self.get("step")?, epoch: self.get("epoch")? })
    }

    /// Reads a managed code; its namespace names the row in errors so far.
    pub(super) fn managed_code(&mut self) -> Result<ManagedCode> {
        let code: String = self.get("code")?;
        self.row_name = format!("{} {code}", self.row_name);
        Ok(ManagedCode { code, settings: self.get("settings")?, token: self.get("token")? })
    }

    fn corrupt(&self, column: &'static str, value: Value, reason: String) -> StoreError {
        let (table, row, value) = (self.table.to_owned(), self.row_name.clone(), value.to_string());
        StoreError::Corrupt { table, row, column, value, reason }
    }
}

/// Reads the workers' rows of a scope.
pub(super) fn worker_rows(
    table: &str,
    scope: &Scope,
    rows: Vec<Vec<Value>>,
) -> impl Iterator<Item = Result<Row>> {
    rows.into_iter().map(move |row| Reader::new(table, scope.key(), row).worker_row())
}

/// Leaves out rows that cannot be parsed, and logs them: one such row must not keep nodes from all
/// others.
pub(super) fn readable(scope: &Scope, rows: impl Iterator<Item = Result<Row>>) -> Vec<Row> {
    let namespace = &scope.namespace;
    let report = |error: &StoreError| tracing::error!(namespace, %error, "a row is left alone");
    rows.filter_map(|row| row.inspect_err(report).ok()).collect()
}
