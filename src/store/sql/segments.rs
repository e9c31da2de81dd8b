//! Segment codes in a SQL database.

use async_trait::async_trait;

use super::{
    SqlStore,
    engine::Engine,
    statements::{SEGMENT_COLUMNS, SETTINGS_COLUMNS},
};
use crate::{
    core::lease::Token,
    store::{
        ListedSegment, ManagedCode, NewSegment, Reservation, Reserved, Result, SegmentStore,
        value::{Reader, Value, values},
    },
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
        let Reservation { by, end, token, or_begin_at } = *reservation;
        if let Some(highest) = end.checked_sub(by) {
            let answer = match or_begin_at.filter(|first| *first <= highest) {
                Some(first) => {
                    // The numbers stand in the text, since the engines would have them in
                    // different orders; few codes differ in them.
                    let sql = "{clock}INSERT INTO {segment} \
                         (namespace, code, next_number, step, token, created_at, updated_at) \
                         VALUES (?, ?, {raised_to}, {by}, ?, {now}, {now}) {or_raise}";
                    let sql = self.statements.fill(sql);
                    let sql = sql
                        .replace("{first}", &(first + by).to_string())
                        .replace("{by}", &by.to_string())
                        .replace("{highest}", &highest.to_string());
                    self.execute(&sql, &values![namespace, code, token]).await?
                }
                None => {
                    let sql = "{clock}UPDATE {segment} SET next_number = {raised_by}, \
                         step = ?, token = ?, updated_at = {now} WHERE namespace = ? \
                         AND code = ? AND next_number BETWEEN 0 AND ?{returning}";
                    self.run(sql, &values![by, by, token, namespace, code, highest]).await?
                }
            };
            if let Some(next) = answer.raised() {
                // It was not negative before.
                return Ok(Reserved::From(next.unsigned_abs() - by));
            }
        }
        let sql = "SELECT next_number FROM {segment} WHERE namespace = ? AND code = ?";
        let rows = self.run(sql, &values![namespace, code]).await?.rows;
        let Some(row) = rows.into_iter().next() else {
            let none = or_begin_at.map(|next| Reserved::Refused { next });
            return Ok(none.unwrap_or(Reserved::NoSuchCode));
        };
        let row_key = format!("{namespace} {code}");
        let mut reader = Reader::new(&self.settings.segment_table, row_key, row);
        Ok(Reserved::Refused { next: reader.get("next_number")? })
    }

    async fn give_back(
        &self,
        namespace: &str,
        code: &str,
        reserved: Token,
        from: u64,
        token: Token,
    ) -> Result<bool> {
        let sql = "{clock}UPDATE {segment} SET next_number = ?, token = ?, updated_at = {now} \
             WHERE namespace = ? AND code = ? AND token = ?";
        let args = values![from, token, namespace, code, reserved];
        Ok(self.run(sql, &args).await?.matched == 1)
    }

    async fn managed_codes(&self, namespace: &str) -> Result<Vec<ManagedCode>> {
        let sql = "SELECT code, settings, token FROM {settings} WHERE namespace = ? ORDER BY code";
        let rows = self.run(sql, &values![namespace]).await?.rows;
        let table = format!("{}_settings", self.settings.segment_table);
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
        let sql = "{clock}SELECT namespace, code, next_number, step, {updated_ms}, {created_ms} \
             FROM {segment} ORDER BY namespace, code";
        let rows = self.run(sql, &[]).await?.rows;
        let listed =
            |row| Reader::new(&self.settings.segment_table, "", row).listed_segment("next_number");
        rows.into_iter().map(listed).collect()
    }
}
