//! Segment codes in a SQL database.

use async_trait::async_trait;

use super::{
    SqlStore,
    engine::{Arg, Dialect, Engine},
    integer,
    schema::Schema,
};
use crate::{
    core::lease::Token,
    store::{
        ListedSegment, NewSegment, Reservation, Reserved, SegmentStore, StoreError, value::Reader,
    },
};

const COLUMNS: &[&str] =
    &["namespace", "code", "next_number", "step", "token", "created_at", "updated_at"];
/// How many codes one statement inserts: 3 arguments each, far below every engine's most.
const CODES_AT_ONCE: usize = 500;

/// Ready texts; the arguments' order is that of the question marks.
#[derive(Debug)]
pub(super) struct SegmentStatements {
    insert: String,
    inserted_code: String,
    or_keep: &'static str,
    reserve: String,
    insert_or_reserve: String,
    next: String,
    give_back: String,
    list: String,
}

impl SegmentStatements {
    pub(super) fn new(dialect: &Dialect, table: &str) -> Self {
        let Dialect { quote, clock, now, or_keep, raised, returning, or_raise, .. } = dialect;
        let segment = format!("{quote}{table}{quote}");
        let raised = raised.replace("{}", "next_number + ?");
        Self {
            insert: format!(
                "{clock}INSERT INTO {segment} \
                 (namespace, code, next_number, created_at, updated_at) VALUES "
            ),
            inserted_code: format!("(?, ?, ?, {now}, {now})"),
            or_keep,
            reserve: format!(
                "{clock}UPDATE {segment} SET next_number = {raised}, step = ?, token = ?, \
                 updated_at = {now} \
                 WHERE namespace = ? AND code = ? AND next_number BETWEEN 0 AND ?{returning}"
            ),
            insert_or_reserve: format!(
                "{clock}INSERT INTO {segment} \
                 (namespace, code, next_number, step, token, created_at, updated_at) \
                 VALUES (?, ?, {}, {{by}}, ?, {now}, {now}) {}",
                dialect.raised.replace("{}", "{first}"),
                or_raise.replace("{now}", now).replace("{segment}", &segment),
            ),
            next: format!("SELECT next_number FROM {segment} WHERE namespace = ? AND code = ?"),
            give_back: format!(
                "{clock}UPDATE {segment} SET next_number = ?, token = ?, updated_at = {now} \
                 WHERE namespace = ? AND code = ? AND token = ?"
            ),
            list: format!(
                "{clock}SELECT namespace, code, next_number, step, {} FROM {segment} \
                 ORDER BY namespace, code",
                dialect.unix_ms.replace("{}", "updated_at"),
            ),
        }
    }
}

impl SegmentStatements {
    /// One statement that makes a code or reserves from it. Its numbers stand in its text, since
    /// the engines would have them in different orders; few codes differ in them.
    fn insert_or_reserve(&self, first: u64, by: u64, highest: u64) -> String {
        self.insert_or_reserve
            .replace("{first}", &(first + by).to_string())
            .replace("{by}", &by.to_string())
            .replace("{highest}", &highest.to_string())
    }
}

#[async_trait]
impl<E: Engine> SegmentStore for SqlStore<E> {
    fn segment_table(&self) -> &str {
        &self.segment_table
    }

    async fn prepare_segments(&self) -> Result<(), StoreError> {
        let tables = vec![(self.segment_table.clone(), COLUMNS)];
        Schema::new(&self.connections, &self.segment_table, tables, E::SEGMENT_MIGRATIONS)
            .prepare()
            .await
    }

    async fn create_segments(
        &self,
        namespace: &str,
        codes: &[NewSegment],
    ) -> Result<(), StoreError> {
        let SegmentStatements { insert, inserted_code, or_keep, .. } = &self.segments;
        for codes in codes.chunks(CODES_AT_ONCE) {
            let args: Vec<Arg<'_>> = codes
                .iter()
                .flat_map(|NewSegment { code, first }| {
                    [Arg::Text(namespace), Arg::Text(code), integer(*first)]
                })
                .collect();
            let rows = vec![inserted_code.as_str(); codes.len()].join(",");
            self.connections.execute(&format!("{insert}{rows} {or_keep}"), &args).await?;
        }
        Ok(())
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved, StoreError> {
        let Reservation { by, end, token, or_begin_at } = *reservation;
        let token = token.to_string();
        let key = [Arg::Text(namespace), Arg::Text(code)];
        if let Some(highest) = end.checked_sub(by) {
            let raised = match or_begin_at.filter(|first| *first <= highest) {
                Some(first) => {
                    let sql = self.segments.insert_or_reserve(first, by, highest);
                    let args = [key[0], key[1], Arg::Text(&token)];
                    self.connections.raise(&sql, &args).await?
                }
                None => {
                    let [step, highest] = [integer(by), integer(highest)];
                    let args = [step, step, Arg::Text(&token), key[0], key[1], highest];
                    self.connections.raise(&self.segments.reserve, &args).await?
                }
            };
            if let Some(next) = raised {
                // It was not negative before.
                return Ok(Reserved::From(next.unsigned_abs() - by));
            }
        }
        let rows = self.connections.fetch(&self.segments.next, &key).await?;
        let Some(row) = rows.into_iter().next() else {
            let none = or_begin_at.map(|next| Reserved::Refused { next });
            return Ok(none.unwrap_or(Reserved::NoSuchCode));
        };
        let mut reader = Reader::new(&self.segment_table, format!("{namespace} {code}"), row);
        Ok(Reserved::Refused { next: reader.count("next_number")? })
    }

    async fn give_back(
        &self,
        namespace: &str,
        code: &str,
        reserved: Token,
        from: u64,
        token: Token,
    ) -> Result<bool, StoreError> {
        let (token, reserved) = (token.to_string(), reserved.to_string());
        let args = [
            integer(from),
            Arg::Text(&token),
            Arg::Text(namespace),
            Arg::Text(code),
            Arg::Text(&reserved),
        ];
        Ok(self.connections.execute(&self.segments.give_back, &args).await? == 1)
    }

    async fn segments(&self) -> Result<Vec<ListedSegment>, StoreError> {
        let rows = self.connections.fetch(&self.segments.list, &[]).await?;
        let listed = |row| Reader::new(&self.segment_table, "", row).listed_segment();
        rows.into_iter().map(listed).collect()
    }
}
