//! Segment codes in a SQL database.
//!
//! A reservation is one statement, which raises the next number only if the session, the epoch and
//! the identity of the server are as expected and the number stays below its end. Why a reservation
//! matched no row is read afterwards, and only for the error. Giving numbers back names the token
//! of their reservation, so a late or repeated one changes nothing.
//!
//! Reads of several codes are one statement that returns a row for each code; fewer rows are an
//! error, because some proxies cut results short. Tests: tests/store/segments.rs and
//! segment_epochs.rs.

use std::{ops::RangeInclusive, sync::atomic::Ordering};

use async_trait::async_trait;
use raindrop_core::lease::Token;

use super::{
    SqlStore,
    engine::Engine,
    schema::SEGMENT_TABLES,
    session::{Server, complete_rows, incomplete_rows},
};
use crate::{
    CodeState, ForeignSegment, ForeignTable, ListedSegment, ManagedCode, NewSegment, Reservation,
    Reserved, Result, SegmentStore, StoreError, Undo, UnusedNumbers,
    connect::check_table_name,
    value::{Reader, Value, values},
    with_sources,
};

/// The most codes that one statement inserts, so that it stays short.
const CODES_AT_ONCE: usize = 500;

#[async_trait]
impl<E: Engine> SegmentStore for SqlStore<E> {
    fn segment_table(&self) -> &str {
        &self.settings.segment_table
    }

    async fn prepare_segments(&self) -> Result<()> {
        let table = &self.settings.segment_table;
        let (tables, migrations) = (SEGMENT_TABLES, E::SEGMENT_MIGRATIONS);
        let Err(error) = self.prepare_tables(table, tables, migrations).await else {
            return Ok(());
        };
        // The tables may be those of a version before keys, which most codes do not need.
        if !error.is_denied()
            || self.prepare_tables(table, &tables[..2], &migrations[..2]).await.is_err()
        {
            return Err(error);
        }
        self.lacks_keys.store(true, Ordering::Relaxed);
        let error = with_sources(&error);
        tracing::warn!(
            table,
            error,
            "no table of idempotency keys: requests with a key are refused"
        );
        Ok(())
    }

    async fn create_segments(&self, namespace: &str, codes: &[NewSegment]) -> Result<()> {
        for codes in codes.chunks(CODES_AT_ONCE) {
            let rows: Vec<_> = codes.iter().map(|new| (&new.code, new.first)).collect();
            let rows = serde_json::to_string(&rows).map_err(|e| StoreError::Refused(e.into()))?;
            let args = |server: &Server| values![namespace, rows, &server.session].to_vec();
            self.write(&self.sql["create_segments"], args).await?;
        }
        Ok(())
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let Reservation { by, step, end, token, or_begin_at, epoch, row_epoch } = *reservation;
        if let Some(highest) = end.checked_sub(by) {
            let begin_at = or_begin_at.filter(|first| *first <= highest);
            let sql = match begin_at {
                Some(_) => &self.sql["create_or_reserve"],
                None => &self.sql["reserve"],
            };
            let args = |Server { session, identity }: &Server| {
                let row: &[Value] = match begin_at {
                    Some(first) => {
                        &values![namespace, code, first, by, step, token, epoch, row_epoch, highest]
                    }
                    None => &values![by, step, token, epoch, namespace, code, row_epoch, highest],
                };
                [row, &values![namespace, epoch, identity, identity, session]].concat()
            };
            if let Some(next) = self.write(sql, args).await?.raised() {
                // The number before it was raised is never negative.
                return Ok(Reserved::From(next.unsigned_abs() - by));
            }
        }
        Ok(reservation.refusal(self.read_segment(namespace, code, epoch).await?))
    }

    async fn read_segments(
        &self,
        namespace: &str,
        codes: &[&str],
        epoch: Token,
    ) -> Result<Vec<Result<CodeState>>> {
        let names = serde_json::to_string(codes).map_err(|e| StoreError::Refused(e.into()))?;
        let args = |Server { identity, .. }: &Server| {
            values![namespace, epoch, identity, identity, names, namespace].to_vec()
        };
        let rows = self.read_on(&self.sql["read_segments"], args).await?.0.rows;
        let (asked, received) = (codes.len(), rows.len());
        if received != asked {
            return Err(incomplete_rows(asked, received, &self.settings.segment_table));
        }
        let states = codes.iter().zip(rows);
        Ok(states.map(|(code, row)| self.code_state(namespace, code, row)).collect())
    }

    async fn give_back(&self, namespace: &str, code: &str, unused: &UnusedNumbers) -> Result<bool> {
        let UnusedNumbers { from, reserved, epoch, token } = *unused;
        let args = |Server { session, identity }: &Server| {
            let row = values![from, token, namespace, code, reserved];
            [&row[..], &values![namespace, epoch, identity, identity, session]].concat()
        };
        Ok(self.write(&self.sql["give_back"], args).await?.matched == 1)
    }

    async fn undo(&self, namespace: &str, code: &str, undo: &Undo) -> Result<bool> {
        let Undo { by, reserved, epoch, token } = *undo;
        let args = |Server { session, identity }: &Server| {
            let row = values![by, token, namespace, code, reserved];
            [&row[..], &values![namespace, epoch, identity, identity, session]].concat()
        };
        Ok(self.write(&self.sql["undo"], args).await?.matched == 1)
    }

    async fn list_managed_codes(&self, namespace: &str) -> Result<Vec<ManagedCode>> {
        let table = format!("{}_settings", self.settings.segment_table);
        let rows =
            self.read(&self.sql["list_managed_codes"], &values![namespace, namespace]).await?;
        let rows = complete_rows(rows, &table)?;
        rows.into_iter().map(|row| Reader::new(&table, namespace, row).managed_code()).collect()
    }

    async fn write_managed_code(
        &self,
        namespace: &str,
        expected: Option<Token>,
        code: &ManagedCode,
    ) -> Result<bool> {
        let ManagedCode { code, settings, token } = code;
        if let Some(expected) = expected {
            let args = |server: &Server| {
                values![settings, *token, namespace, code, expected, &server.session].to_vec()
            };
            return Ok(self.write(&self.sql["swap_managed_code"], args).await?.matched == 1);
        }
        let args =
            |server: &Server| values![namespace, code, settings, *token, &server.session].to_vec();
        self.write(&self.sql["create_managed_code"], args).await?;
        // Not every engine reports whether it inserted a row or kept one, so read it.
        let args = values![namespace, code, *token];
        Ok(self.count(&self.sql["count_managed_code"], &args).await? == 1)
    }

    async fn count_segments(&self, namespace: &str) -> Result<u64> {
        self.count(&self.sql["count_segments"], &values![namespace]).await
    }

    async fn list_segments(&self) -> Result<Vec<ListedSegment>> {
        let table = &self.settings.segment_table;
        let rows = complete_rows(self.read(&self.sql["list_segments"], &[]).await?, table)?;
        rows.into_iter().map(|row| self.listed(row)).collect()
    }

    async fn segments_in(
        &self,
        namespace: &str,
        codes: RangeInclusive<&str>,
        limit: u32,
    ) -> Result<Vec<ListedSegment>> {
        let args = values![namespace, *codes.start(), *codes.end(), u64::from(limit)];
        let rows = self.read(&self.sql["segments_in"], &args).await?;
        let rows = complete_rows(rows, &self.settings.segment_table)?;
        rows.into_iter().map(|row| self.listed(row)).collect()
    }

    async fn foreign_segments(&self, table: &ForeignTable) -> Result<Vec<ForeignSegment>> {
        let ForeignTable { service, name: table, columns } = table;
        check_table_name("a table to read", table)?;
        let found = self.columns_of(table).await?;
        let missing: Vec<_> =
            columns.iter().copied().filter(|column| !found.contains(*column)).collect();
        if !missing.is_empty() {
            let (database, missing) = (&self.settings.url, missing.join(", "));
            return Err(StoreError::Unusable(if found.is_empty() {
                format!("there is no table {table} in {database}")
            } else {
                format!("table {table} in {database} is not of {service}: it lacks {missing}")
            }));
        }
        let sql = self.sql[&*format!("read_{service}")].replace("{table}", table);
        let rows = complete_rows(self.read(&sql, &[]).await?, table)?;
        let segment = |row| {
            let column = |at: usize| columns.get(at).copied().unwrap_or_default();
            let mut reader = Reader::new(table, "", row);
            Ok(ForeignSegment {
                name: reader.named(column(0))?,
                max_id: reader.get(column(1))?,
                step: reader.get(column(2))?,
                delta: reader.get(column(3))?,
            })
        };
        let mut segments = rows.into_iter().map(segment).collect::<Result<Vec<_>>>()?;
        segments.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(segments)
    }
}

impl<E: Engine> SqlStore<E> {
    /// Reads the state of a code from its row of `read_segments`, whose columns are null if the
    /// code has no row.
    fn code_state(&self, namespace: &str, code: &str, row: Vec<Value>) -> Result<CodeState> {
        let is_there = row.get(1).is_some_and(|next| *next != Value::Null);
        let key = format!("{namespace} {code}");
        let mut reader = Reader::new(&self.settings.segment_table, key, row);
        Ok(match (reader.get::<i64>("in_epoch")?, is_there) {
            (0, _) => CodeState::OtherEpoch,
            (_, false) => CodeState::Missing,
            (_, true) => CodeState::Row(reader.code_row("next_number")?),
        })
    }

    fn listed(&self, row: Vec<Value>) -> Result<ListedSegment> {
        Reader::new(&self.settings.segment_table, "", row).listed_segment("next_number")
    }
}
