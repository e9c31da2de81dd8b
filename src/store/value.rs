//! Values on their way into a database and out of it; what cannot be read is said exactly.

use std::{fmt::Display, str::FromStr, time::Duration, vec};

use super::{LayoutRecord, StoreError};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
use super::{ListedRow, ListedSegment};
use crate::core::lease::Row;

/// The most characters of a holder that are kept.
const LONGEST_HOLDER: usize = 255;
/// No lease is longer than this, so that adding it to the present stays inside every engine's
/// times.
const LONGEST_TTL: Duration = Duration::from_hours(24 * 365 * 100);

/// As much of a holder as is kept: it is only a label.
pub(super) fn shortened(holder: &str) -> &str {
    holder.char_indices().nth(LONGEST_HOLDER).map_or(holder, |(end, _)| &holder[..end])
}

/// A lease's time in milliseconds.
pub(super) fn whole_ms(ttl: Duration) -> i64 {
    let ms = ttl.min(LONGEST_TTL).as_millis();
    i64::try_from(ms).expect("a hundred years of milliseconds fit")
}

/// A value that a database answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    /// Everything that is not an integer, as text: what reads it knows what it must look like.
    Text(String),
}

/// One row's values in the order of its statement, with the names for complaints.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    table: &'a str,
    row: String,
    values: vec::IntoIter<Value>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(table: &'a str, row: impl Into<String>, values: Vec<Value>) -> Self {
        Self { table, row: row.into(), values: values.into_iter() }
    }

    pub(super) fn text(&mut self, column: &'static str) -> Result<String, StoreError> {
        match self.next() {
            Value::Text(text) => Ok(text),
            other => Err(self.corrupt(column, &other, "not a text")),
        }
    }

    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(super) fn optional_text(
        &mut self,
        column: &'static str,
    ) -> Result<Option<String>, StoreError> {
        match self.next() {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            other => Err(self.corrupt(column, &other, "not a text")),
        }
    }

    pub(super) fn parsed<T>(&mut self, column: &'static str) -> Result<T, StoreError>
    where
        T: FromStr<Err: Display>,
    {
        let text = self.text(column)?;
        text.parse().map_err(|reason| self.corrupt(column, &Value::Text(text.clone()), reason))
    }

    pub(super) fn integer(&mut self, column: &'static str) -> Result<i64, StoreError> {
        match self.next() {
            Value::Integer(integer) => Ok(integer),
            other => Err(self.corrupt(column, &other, "not an integer")),
        }
    }

    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(super) fn optional_integer(
        &mut self,
        column: &'static str,
    ) -> Result<Option<i64>, StoreError> {
        match self.next() {
            Value::Null => Ok(None),
            Value::Integer(integer) => Ok(Some(integer)),
            other => Err(self.corrupt(column, &other, "not an integer")),
        }
    }

    pub(super) fn count(&mut self, column: &'static str) -> Result<u64, StoreError> {
        let integer = self.integer(column)?;
        let negative = |_| self.corrupt(column, &Value::Integer(integer), "negative");
        u64::try_from(integer).map_err(negative)
    }

    /// A layout record, whose columns come next.
    pub(super) fn layout_record(&mut self) -> Result<LayoutRecord, StoreError> {
        let token = self.parsed("token")?;
        let words = self.text("words")?;
        let complete = self.text("complete")?;
        let keys: Vec<String> = complete.split_terminator(',').map(str::to_owned).collect();
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_key = |key: &String| {
            key.split_once('/').is_some_and(|(width, value)| is_number(width) && is_number(value))
        };
        // It is compared with what stands there when it is changed.
        if keys.join(",") != complete || !keys.iter().all(is_key) {
            let reason = "reserved keys such as 0/0 are joined by commas";
            return Err(self.corrupt("complete", &Value::Text(complete), reason));
        }
        let since_tick = self.count("since_tick")?;
        let first_tick = self.count("first_tick")?;
        Ok(LayoutRecord { token, words, complete: keys, since_tick, first_tick })
    }

    /// A worker's row, whose columns come next; `key` is its namespace and reserved key.
    pub(super) fn worker_row(&mut self, key: &str) -> Result<Row, StoreError> {
        self.row = key.to_owned();
        let worker = self.count("worker_id")?;
        self.row = format!("{key} {worker}");
        let token = self.parsed("token")?;
        let holder = self.text("holder")?;
        let lane = self.count("lane")?;
        let marks: crate::core::lease::HighWaterMarks = self.parsed("marks")?;
        let known_lane = usize::try_from(lane).ok().filter(|lane| *lane < marks.lanes());
        let lane = known_lane.ok_or_else(|| {
            let reason = format!("there are {} lanes", marks.lanes());
            self.corrupt("lane", &Value::Text(lane.to_string()), reason)
        })?;
        Ok(Row {
            worker,
            token,
            holder,
            lane,
            marks,
            free: self.integer("expires_at")? != 0,
            heartbeat_ms: self.integer("heartbeat_at")?,
            expires_ms: self.integer("expires_at")?,
        })
    }

    /// The rows that can be read: one that cannot must not keep nodes from all others.
    pub(super) fn readable(rows: impl IntoIterator<Item = Result<Row, StoreError>>) -> Vec<Row> {
        let report = |error: &StoreError| tracing::error!(%error, "a row is left alone");
        rows.into_iter().filter_map(|row| row.inspect_err(report).ok()).collect()
    }

    /// A worker's row after its namespace and reserved key.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(super) fn listed_row(&mut self) -> Result<ListedRow, StoreError> {
        let namespace = self.text("namespace")?;
        let reserved_key = self.text("reserved_key")?;
        let row = self.worker_row(&format!("{namespace} {reserved_key}"))?;
        Ok(ListedRow { namespace, reserved_key, row })
    }

    /// A segment code that is listed.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(super) fn listed_segment(&mut self) -> Result<ListedSegment, StoreError> {
        let namespace = self.text("namespace")?;
        let code = self.text("code")?;
        self.row = format!("{namespace} {code}");
        Ok(ListedSegment {
            namespace,
            code,
            next: self.count("next_number")?,
            step: self.count("step")?,
            updated_ms: self.integer("updated_at")?,
        })
    }

    /// A column that the statement does not answer reads as null.
    fn next(&mut self) -> Value {
        self.values.next().unwrap_or(Value::Null)
    }

    fn corrupt(&self, column: &'static str, value: &Value, reason: impl ToString) -> StoreError {
        StoreError::Corrupt {
            table: self.table.to_owned(),
            row: self.row.clone(),
            column,
            value: match value {
                Value::Null => "null".to_owned(),
                Value::Integer(integer) => integer.to_string(),
                Value::Text(text) => text.clone(),
            },
            reason: reason.to_string(),
        }
    }
}
