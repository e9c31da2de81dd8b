//! Segment codes in a SQL database.

use async_trait::async_trait;
use raindrop_core::{lease::Token, segment::CodeRow};

use super::{
    SqlStore,
    engine::{Answer, Engine},
    session::whole,
    statements::{SEGMENT_COLUMNS, SETTINGS_COLUMNS},
};
use crate::{
    ForeignSegment, ForeignTable, ListedSegment, ManagedCode, NewSegment, Reservation, Reserved,
    Result, SegmentStore, UnusedNumbers,
    value::{Reader, Value, values},
};

/// How many codes one statement inserts: 3 arguments each, far below every engine's most.
const CODES_AT_ONCE: usize = 500;

#[async_trait]
impl<E: Engine> SegmentStore for SqlStore<E> {
    fn segment_table(&self) -> &str {
        &self.settings.segment_table
    }

    async fn prepare_segments(&self) -> Result<()> {
        let table = &self.settings.segment_table;
        let settings_table = format!("{table}_settings");
        let tables = [(table.as_str(), SEGMENT_COLUMNS), (&settings_table, SETTINGS_COLUMNS)];
        self.prepare_tables(table, &tables, E::SEGMENT_MIGRATIONS).await
    }

    async fn create_segments(&self, namespace: &str, codes: &[NewSegment]) -> Result<()> {
        for codes in codes.chunks(CODES_AT_ONCE) {
            let row = |new: &NewSegment| values![namespace, &new.code, new.first];
            let args: Vec<Value> = codes.iter().flat_map(row).collect();
            let rows = vec!["(?, ?, ?, {now}, {now})"; codes.len()].join(",");
            let sql = "{clock}INSERT INTO {segment} \
                 (namespace, code, next_number, created_at, updated_at) VALUES ";
            self.run(&format!("{sql}{rows} {{or_keep}}"), &args).await?;
        }
        Ok(())
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        if let Some(highest) = reservation.end.checked_sub(reservation.by) {
            let answer = match reservation.or_begin_at.filter(|first| *first <= highest) {
                Some(first) => {
                    self.create_or_raise(namespace, code, reservation, first, highest).await?
                }
                None => self.raise(namespace, code, reservation, highest).await?,
            };
            if let Some(next) = answer.raised() {
                // It was not negative before.
                return Ok(Reserved::From(next.unsigned_abs() - reservation.by));
            }
        }
        self.why_refused(namespace, code, reservation).await
    }

    async fn give_back(&self, namespace: &str, code: &str, unused: &UnusedNumbers) -> Result<bool> {
        let UnusedNumbers { from, reserved, epoch, token } = *unused;
        let sql = "{clock}UPDATE {segment} SET next_number = ?, token = ?, updated_at = {now} \
             WHERE namespace = ? AND code = ? AND token = ? AND {in_epoch}";
        let args = values![from, token, namespace, code, reserved, namespace, epoch];
        Ok(self.run(sql, &args).await?.matched == 1)
    }

    async fn managed_codes(&self, namespace: &str) -> Result<Vec<ManagedCode>> {
        let sql = "SELECT code, settings, token, \
             (SELECT COUNT(*) FROM {settings} WHERE namespace = ?) \
             FROM {settings} WHERE namespace = ? ORDER BY code";
        let table = format!("{}_settings", self.settings.segment_table);
        let rows = whole(self.run(sql, &values![namespace, namespace]).await?.rows, &table)?;
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
            let sql = "{clock}UPDATE {settings} SET settings = ?, token = ?, updated_at = {now} \
                 WHERE namespace = ? AND code = ? AND token = ?";
            let args = values![settings, *token, namespace, code, expected];
            return Ok(self.run(sql, &args).await?.matched == 1);
        }
        let sql = "{clock}INSERT INTO {settings} \
             (namespace, code, settings, token, created_at, updated_at) \
             VALUES (?, ?, ?, ?, {now}, {now}) {or_keep}";
        self.run(sql, &values![namespace, code, settings, *token]).await?;
        // Not every engine tells an insert from a row that it kept.
        let sql = "SELECT COUNT(*) FROM {settings} WHERE namespace = ? AND code = ? AND token = ?";
        let counted = self.run(sql, &values![namespace, code, *token]).await?.into_row();
        Ok(Reader::new(&self.settings.segment_table, namespace, counted).get::<u64>("count")? == 1)
    }

    async fn count_segments(&self, namespace: &str) -> Result<u64> {
        let sql = "SELECT COUNT(*) FROM {segment} WHERE namespace = ?";
        let counted = self.run(sql, &values![namespace]).await?.into_row();
        Reader::new(&self.settings.segment_table, namespace, counted).get("count")
    }

    async fn segments(&self) -> Result<Vec<ListedSegment>> {
        let sql = "{clock}SELECT namespace, code, next_number, step, {updated_ms}, {created_ms}, \
             epoch, (SELECT COUNT(*) FROM {segment}) FROM {segment} ORDER BY namespace, code";
        let rows = whole(self.run(sql, &[]).await?.rows, &self.settings.segment_table)?;
        let listed =
            |row| Reader::new(&self.settings.segment_table, "", row).listed_segment("next_number");
        rows.into_iter().map(listed).collect()
    }

    async fn foreign_segments(&self, table: &ForeignTable) -> Result<Vec<ForeignSegment>> {
        self.read_foreign(table).await
    }
}

impl<E: Engine> SqlStore<E> {
    /// Raises the next number of a code, or creates the code, from `first` on; not from above
    /// `highest`.
    async fn create_or_raise(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
        first: u64,
        highest: u64,
    ) -> Result<Answer> {
        let Reservation { by, step, token, epoch, row_epoch, .. } = *reservation;
        // The numbers stand in the text, since the engines would have them in different orders; few
        // codes differ in them.
        let sql = "{clock}INSERT INTO {segment} \
             (namespace, code, next_number, step, token, epoch, created_at, updated_at) \
             SELECT ?, ?, {raised_to}, {step}, ?, ?, {now}, {now} \
             FROM (SELECT 1 AS one) AS one WHERE {in_epoch} {or_raise}";
        let sql = self.statements.fill(sql);
        let sql = sql
            .replace("{first}", &(first + by).to_string())
            .replace("{by}", &by.to_string())
            .replace("{step}", &step.to_string())
            .replace("{row_epoch}", &row_epoch.to_string())
            .replace("{highest}", &highest.to_string());
        self.execute(&sql, &values![namespace, code, token, epoch, namespace, epoch]).await
    }

    /// Raises the next number of a code; not from above `highest`.
    async fn raise(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
        highest: u64,
    ) -> Result<Answer> {
        let Reservation { by, step, token, epoch, row_epoch, .. } = *reservation;
        let sql = "{clock}UPDATE {segment} SET next_number = {raised_by}, step = ?, token = ?, \
             epoch = ?, updated_at = {now} WHERE namespace = ? AND code = ? AND epoch = ? \
             AND next_number BETWEEN 0 AND ? AND {in_epoch}{returning}";
        let args =
            values![by, step, token, epoch, namespace, code, row_epoch, highest, namespace, epoch,];
        self.run(sql, &args).await
    }

    /// Reads what refused a reservation.
    async fn why_refused(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let Reservation { epoch, row_epoch, or_begin_at, .. } = *reservation;
        let sql = "SELECT {in_epoch}, next_number, step, epoch FROM (SELECT 1 AS one) AS one \
             LEFT JOIN {segment} ON namespace = ? AND code = ?";
        let row = self.run(sql, &values![namespace, epoch, namespace, code]).await?.into_row();
        let is_there = row.get(1).is_some_and(|next| *next != Value::Null);
        let row_key = format!("{namespace} {code}");
        let mut reader = Reader::new(&self.settings.segment_table, row_key, row);
        if reader.get::<i64>("in_epoch")? == 0 {
            return Ok(Reserved::OtherEpoch);
        }
        let row = is_there.then(|| reader.code_row("next_number")).transpose()?;
        let missing = or_begin_at.map(|next| CodeRow { next, step: 0, epoch: row_epoch });
        Ok(row.or(missing).map_or(Reserved::NoSuchCode, Reserved::Refused))
    }
}
