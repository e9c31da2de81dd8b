//! Models the store: a record, rows, and one statement after the other.

use std::sync::Arc;

use raindrop_core::lease::{HighWaterMarks, History, Row, RowExpiry, RowWrite, Token};

/// The identity of the server, which a restore in place does not change.
pub(super) const SERVER: &str = "server";

/// Fresh tokens: no other token of a state equals one of them, because each step ends by renaming
/// them.
pub(super) const FRESH_ROW: Token = Token::from_bits(200);
pub(super) const FRESH_RECORD: Token = Token::from_bits(201);
pub(super) const FRESH_EPOCH: Token = Token::from_bits(202);
pub(super) const FRESH_NOBODYS: Token = Token::from_bits(203);
const FRESH_BIRTH: Token = Token::from_bits(210);

/// The record of the namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) token: Token,
    /// Whether the record says that the rows were created.
    pub(super) has_rows: bool,
    pub(super) history: History,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tables {
    pub(super) record: Option<Arc<Record>>,
    pub(super) rows: Vec<Option<Arc<Row>>>,
    /// The next ID of the past tick.
    pub(super) past: u8,
}

/// A row that was never written.
pub(super) fn unwritten(worker: u64, mark: u64) -> Row {
    Row {
        worker,
        token: FRESH_BIRTH.plus(worker),
        holder: String::new(),
        lane: 0,
        marks: HighWaterMarks::all_at(mark, 1),
        free: false,
        epoch: Token::UNUSED,
        heartbeat_ms: 0,
        expires_ms: 0,
    }
}

impl Tables {
    /// Returns a row as a process reads it.
    pub(super) fn row(&self, worker: usize, store_ms: i64) -> Option<Row> {
        let row = self.rows[worker].as_ref()?;
        Some(Row { free: row.expires_ms <= store_ms, ..(**row).clone() })
    }

    pub(super) fn lacks_rows(&self) -> bool {
        self.rows.iter().any(Option::is_none)
    }

    /// Returns the newest heartbeat among the first `rows` rows that were not released.
    pub(super) fn newest_heartbeat_ms(&self, rows: usize) -> Option<i64> {
        let rows = self.rows[..rows].iter().flatten().filter(|row| row.expires_ms > 0);
        rows.map(|row| row.heartbeat_ms).max()
    }

    /// Creates the rows that are missing.
    pub(super) fn create_rows(&mut self, mark: u64) {
        for (worker, row) in (0..).zip(&mut self.rows) {
            row.get_or_insert_with(|| Arc::new(unwritten(worker, mark)));
        }
    }

    /// Runs one statement, as the stores have it: compares and sets. Returns whether it did.
    pub(super) fn swap_row(
        &mut self,
        expected: Token,
        store_ms: i64,
        worker: usize,
        write: &RowWrite,
    ) -> bool {
        let epoch = self.record.as_ref().map(|record| record.history.epoch());
        let Some(row) = &mut self.rows[worker] else { return false };
        if epoch != Some(write.epoch) || row.token != expected {
            return false;
        }
        let expires_ms = match write.expiry {
            RowExpiry::Released => 0,
            RowExpiry::After(ttl) => store_ms + i64::try_from(ttl.as_millis()).expect("short"),
        };
        let row = Arc::make_mut(row);
        (row.token, row.epoch, row.marks) = (write.token, write.epoch, write.marks.clone());
        (row.heartbeat_ms, row.expires_ms) = (store_ms, expires_ms);
        true
    }

    /// Replaces the history of a record that was read in the same step.
    pub(super) fn write_history(&mut self, history: History) {
        if let Some(record) = &mut self.record {
            let record = Arc::make_mut(record);
            (record.token, record.history) = (FRESH_RECORD, history);
        }
    }
}
