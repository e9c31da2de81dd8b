//! Creating the tables, and leaving other people's alone.

use std::collections::BTreeSet;

use sqlx::{
    AssertSqlSafe, SqlSafeStr,
    migrate::{Migrate, Migration, MigrationType, Migrator},
};

use super::{
    connections::Connections,
    engine::{Arg, Engine, Failure, Statements as _},
    statements::Statements,
};
use crate::store::{
    StoreError,
    value::{Reader, Value},
};

const WORKER_COLUMNS: &[&str] = &[
    "namespace",
    "reserved_key",
    "worker_id",
    "holder",
    "token",
    "lane",
    "marks",
    "heartbeat_at",
    "expires_at",
    "created_at",
    "updated_at",
];
const LAYOUT_COLUMNS: &[&str] = &["namespace", "words", "complete", "created_at"];
/// sqlx's.
const BOOKKEEPING_COLUMNS: &[&str] =
    &["version", "description", "installed_on", "success", "checksum", "execution_time"];

/// The tables of one store.
pub(super) struct Schema<'a, E: Engine> {
    pub(super) connections: &'a Connections<E>,
    pub(super) statements: &'a Statements,
    pub(super) worker_table: &'a str,
}

impl<E: Engine> Schema<'_, E> {
    /// Creates the tables or checks them. Nothing is written before it is certain that no table
    /// is somebody else's.
    pub(super) async fn prepare(&self) -> Result<(), StoreError> {
        let migrator = migrator::<E>(self.worker_table, &self.statements.bookkeeping);
        let bookkeeping = format!("{}_migrations", self.worker_table);
        let layout = format!("{}_layout", self.worker_table);
        let ours = [(self.worker_table, WORKER_COLUMNS), (layout.as_str(), LAYOUT_COLUMNS)];

        let is_begun = self.check(&bookkeeping, BOOKKEEPING_COLUMNS, Strictness::Exact).await?;
        let applied = if is_begun { self.applied(&bookkeeping).await? } else { BTreeSet::new() };
        if applied.is_empty() {
            for (table, columns) in ours {
                self.check(table, columns, Strictness::Exact).await?;
            }
        }
        if !migrator.iter().all(|migration| applied.contains(&migration.version)) {
            self.connections.migrate(&migrator, &self.statements.bookkeeping).await?;
        }
        for (table, columns) in ours {
            // A newer version of Raindrop may have added columns.
            if !self.check(table, columns, Strictness::AtLeast).await? {
                return Err(StoreError::Unusable(format!(
                    "table {table} is gone although {bookkeeping} says that it was created: \
                     restore it, or drop the rest of {}, {layout} and {bookkeeping} to begin anew",
                    self.worker_table
                )));
            }
        }
        Ok(())
    }

    /// Whether the table is there. An error when it has other columns.
    async fn check(
        &self,
        table: &str,
        expected: &[&str],
        strictness: Strictness,
    ) -> Result<bool, StoreError> {
        let rows = self.connections.fetch(self.statements.columns, &[Arg::Text(table)]).await?;
        let mut found = BTreeSet::new();
        for row in rows {
            found.insert(Reader::new("columns", table, row).text("name")?);
        }
        if found.is_empty() {
            return Ok(false);
        }
        let missing: Vec<_> =
            expected.iter().copied().filter(|column| !found.contains(*column)).collect();
        let unexpected: Vec<_> =
            found.iter().map(String::as_str).filter(|name| !expected.contains(name)).collect();
        let is_ours =
            missing.is_empty() && (unexpected.is_empty() || strictness == Strictness::AtLeast);
        if is_ours {
            return Ok(true);
        }
        let listed = |what: &str, columns: &[&str]| {
            (!columns.is_empty()).then(|| format!("{what} {}", columns.join(", ")))
        };
        let difference =
            [listed("it lacks", &missing), listed("it has", &unexpected)].into_iter().flatten();
        Err(StoreError::ForeignTable {
            table: table.to_owned(),
            difference: difference.collect::<Vec<_>>().join(" and "),
        })
    }

    /// The versions of the migrations that are done.
    async fn applied(&self, bookkeeping: &str) -> Result<BTreeSet<i64>, StoreError> {
        let rows = self.connections.fetch(&self.statements.applied, &[]).await?;
        rows.into_iter()
            .map(|row: Vec<Value>| Reader::new(bookkeeping, "", row).integer("version"))
            .collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Exact,
    AtLeast,
}

/// The migrations with the table's name in place.
fn migrator<E: Engine>(worker_table: &str, bookkeeping: &str) -> Migrator {
    let migration = |(version, (description, sql)): (i64, &(&'static str, &str))| {
        let sql = sql.replace("{worker_table}", worker_table);
        let sql = AssertSqlSafe(sql).into_sql_str();
        Migration::new(version, (*description).into(), MigrationType::Simple, sql, false)
    };
    let mut migrator = Migrator::with_migrations((1..).zip(E::MIGRATIONS).map(migration).collect());
    migrator.dangerous_set_table_name(bookkeeping.to_owned());
    // A newer version's migrations do not keep this one from starting beside it.
    migrator.set_ignore_missing(true);
    // sqlx's own lock is none on SQLite and waits for ever on MySQL: the engines lock.
    migrator.set_locking(false);
    migrator
}

/// Applies what is missing. A migration that was cut short is run again: each is harmless when
/// it is repeated.
pub(super) async fn apply<E>(
    connection: &mut E::Connection,
    migrator: &Migrator,
    bookkeeping: &str,
) -> Result<(), Failure>
where
    E: Engine,
    E::Connection: Migrate,
{
    connection.ensure_migrations_table(bookkeeping).await?;
    let cut_short = format!("DELETE FROM {bookkeeping} WHERE success = FALSE");
    connection.run(&cut_short, &[]).await?;
    Ok(migrator.run_direct(None, connection, false).await?)
}
