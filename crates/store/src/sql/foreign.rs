//! Tables of other ID services in a SQL database.

use super::{SqlStore, engine::Engine, session::whole};
use crate::{
    ForeignSegment, ForeignService, ForeignTable, Result, StoreError, connect::check_table_name,
    value::Reader,
};

// github.com/Meituan-Dianping/Leaf: scripts/leaf_alloc.sql
// github.com/didi/tinyid: tinyid-server/db.sql
// github.com/Ahoo-Wang/CosId: cosid-jdbc/src/main/init-script/init-cosid-mysql.sql
/// The columns of a service's table that are read: the name, the highest number, and where there are
/// such, how many numbers a reservation takes and the difference between neighbours.
const fn columns(service: ForeignService) -> &'static [&'static str] {
    match service {
        ForeignService::Leaf => &["biz_tag", "max_id", "step"],
        ForeignService::TinyId => &["biz_type", "max_id", "step", "delta"],
        ForeignService::CosId => &["name", "last_max_id"],
    }
}

impl<E: Engine> SqlStore<E> {
    pub(super) async fn read_foreign(&self, table: &ForeignTable) -> Result<Vec<ForeignSegment>> {
        let ForeignTable { service, name: table } = table;
        check_table_name("a table to read", table)?;
        let found = self.columns_of(table).await?;
        let columns = columns(*service);
        let missing: Vec<_> =
            columns.iter().copied().filter(|column| !found.contains(*column)).collect();
        if !missing.is_empty() {
            let database = &self.settings.url;
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
        let sql = match service {
            ForeignService::Leaf => &self.sql.read_leaf,
            ForeignService::TinyId => &self.sql.read_tinyid,
            ForeignService::CosId => &self.sql.read_cosid,
        };
        let rows = whole(self.read(&sql.replace("{table}", table), &[]).await?, table)?;
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
