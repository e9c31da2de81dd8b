//! Tables of other ID services in a SQL database.

use super::{SqlStore, engine::Engine, session::whole};
use crate::{
    ForeignSegment, ForeignService, ForeignTable, Result, StoreError, connect::check_table_name,
    redact_url, value::Reader,
};

/// The columns of a service's table.
struct Columns {
    name: &'static str,
    max: &'static str,
    /// How many numbers a reservation takes, where the table tells.
    step: Option<&'static str>,
    /// The difference between neighbours, where the table tells.
    delta: Option<&'static str>,
}

// github.com/Meituan-Dianping/Leaf: scripts/leaf_alloc.sql
// github.com/didi/tinyid: tinyid-server/db.sql
// github.com/Ahoo-Wang/CosId: cosid-jdbc/src/main/init-script/init-cosid-mysql.sql
const fn columns(service: ForeignService) -> Columns {
    let (name, max, step, delta) = match service {
        ForeignService::Leaf => ("biz_tag", "max_id", Some("step"), None),
        ForeignService::TinyId => ("biz_type", "max_id", Some("step"), Some("delta")),
        ForeignService::CosId => ("name", "last_max_id", None, None),
    };
    Columns { name, max, step, delta }
}

impl<E: Engine> SqlStore<E> {
    pub(super) async fn read_foreign(&self, table: &ForeignTable) -> Result<Vec<ForeignSegment>> {
        let ForeignTable { service, name: table } = table;
        let columns = columns(*service);
        check_table_name("a table to read", table)?;
        let found = self.columns_of(table).await?;
        let needed = [Some(columns.name), Some(columns.max), columns.step, columns.delta];
        let missing: Vec<&str> =
            needed.into_iter().flatten().filter(|column| !found.contains(*column)).collect();
        if !missing.is_empty() {
            let database = redact_url(&self.settings.url);
            return Err(StoreError::Unusable(if found.is_empty() {
                format!("there is no table {table} in {database}")
            } else {
                let missing = missing.join(", ");
                format!(
                    "table {table} in {database} is not of {}: it lacks {missing}",
                    service.name()
                )
            }));
        }
        let quote = E::DIALECT.quote;
        // As text, since an unsigned number may be above what the driver reads.
        let text = |column: Option<&str>, otherwise: &str| {
            let value = column.map_or(otherwise.to_owned(), |name| format!("{quote}{name}{quote}"));
            E::DIALECT.as_text.replace("{}", &value)
        };
        let sql = format!(
            "SELECT {}, {}, {}, {}, (SELECT COUNT(*) FROM {quote}{table}{quote}) \
             FROM {quote}{table}{quote}",
            text(Some(columns.name), ""),
            text(Some(columns.max), ""),
            text(columns.step, "0"),
            text(columns.delta, "1"),
        );
        let rows = whole(self.execute(&sql, &[]).await?.rows, table)?;
        let segment = |row| {
            let mut reader = Reader::new(table, "", row);
            let name: String = reader.named(columns.name)?;
            Ok(ForeignSegment {
                name,
                max_id: reader.get(columns.max)?,
                step: reader.get(columns.step.unwrap_or_default())?,
                delta: reader.get(columns.delta.unwrap_or_default())?,
            })
        };
        let mut segments = rows.into_iter().map(segment).collect::<Result<Vec<_>>>()?;
        segments.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(segments)
    }
}
