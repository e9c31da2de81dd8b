//! Creates and checks the tables, and never touches those of another application.
//!
//! [`SqlStore::prepare_tables`] checks every table of the configured names before the first write.
//! Our migrations have a bookkeeping table for each table name, so that an embedding application
//! with its own sqlx migrations is not affected. A newer version of Raindrop may have added columns
//! or migrations; an older one still starts beside it.
//!
//! A table that is gone although its migration is recorded is an error, and no node creates it
//! again: an empty table would not show which IDs were issued. The engine locks between nodes
//! ([`Engine::migrate`]). Tests: tests/store/sql.rs and foreign.rs.

use std::collections::BTreeSet;

use sqlx::{
    AssertSqlSafe, SqlSafeStr,
    migrate::{Migrate, Migration, MigrationType, Migrator},
};

use super::{
    SqlStore,
    engine::{Engine, Failure, MigrationFile, RunSql},
};
use crate::{
    Result, StoreError,
    value::{Reader, values},
};

/// Tables that belong together: the suffix of each name, and its columns, separated by blanks.
pub(super) type Tables = [(&'static str, &'static str)];

pub(super) const WORKER_TABLES: &Tables = &[
    (
        "",
        "namespace reserved_key worker_id holder token epoch lane marks heartbeat_at expires_at \
         created_at updated_at",
    ),
    (
        "_layout",
        "namespace token words complete since_tick first_tick identity epoch history created_at",
    ),
];
pub(super) const SEGMENT_TABLES: &Tables = &[
    ("", "namespace code next_number step token epoch created_at updated_at"),
    ("_settings", "namespace code settings token created_at updated_at"),
    ("_keys", "namespace code request_key owner number_text created_at updated_at"),
];

/// The columns of sqlx's bookkeeping table.
const BOOKKEEPING_COLUMNS: &str =
    "version description installed_on success checksum execution_time";

impl<E: Engine> SqlStore<E> {
    /// Creates tables that belong together, or checks them. Their names, and that of the
    /// migrations' bookkeeping table, begin with `name`. Nothing is written before every table is
    /// known to be ours or missing.
    pub(super) async fn prepare_tables(
        &self,
        name: &str,
        tables: &Tables,
        migrations: &[MigrationFile],
    ) -> Result<()> {
        let named = |(ending, columns): &(&str, _)| (format!("{name}{ending}"), *columns);
        let tables: Vec<(String, &str)> = tables.iter().map(named).collect();
        let bookkeeping = &format!("{name}_migrations");
        let applied = self.applied_versions(bookkeeping).await?;
        if applied.is_empty() {
            for (table, columns) in &tables {
                self.check_table(table, columns, Strictness::Exact).await?;
            }
        }
        let forget = self.sql["forget_unfinished_migrations"].replace("{table}", bookkeeping);
        let migrations = Migrations::new::<E>(migrations, name, bookkeeping, forget);
        if !migrations.migrator.iter().all(|migration| applied.contains(&migration.version)) {
            self.migrate(&migrations).await?;
        }
        for (table, columns) in &tables {
            // A newer version of Raindrop may have added columns.
            if !self.check_table(table, columns, Strictness::AtLeast).await? {
                let names: Vec<&str> = tables.iter().map(|(name, _)| &**name).collect();
                return Err(StoreError::Unusable(format!(
                    "table {table} is gone although {bookkeeping} says that it was created: \
                     restore it, or drop the rest of {} and {bookkeeping} to begin anew",
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Returns whether a table exists. Fails if it has other columns.
    async fn check_table(
        &self,
        table: &str,
        expected: &str,
        strictness: Strictness,
    ) -> Result<bool> {
        let found = self.columns_of(table).await?;
        if found.is_empty() {
            return Ok(false);
        }
        let expected: Vec<_> = expected.split(' ').collect();
        let missing: Vec<_> = expected.iter().copied().filter(|it| !found.contains(*it)).collect();
        let found = found.iter().map(String::as_str);
        let unexpected: Vec<_> = found.filter(|it| !expected.contains(it)).collect();
        if missing.is_empty() && (unexpected.is_empty() || strictness == Strictness::AtLeast) {
            return Ok(true);
        }
        let difference = [("it lacks", missing), ("it has", unexpected)]
            .into_iter()
            .filter(|(_, columns)| !columns.is_empty())
            .map(|(what, columns)| format!("{what} {}", columns.join(", ")));
        let difference = difference.collect::<Vec<_>>().join(" and ");
        Err(StoreError::ForeignTable { table: table.to_owned(), difference })
    }

    /// Returns the names of a table's columns; none if there is no such table.
    pub(super) async fn columns_of(&self, table: &str) -> Result<BTreeSet<String>> {
        let rows = self.read(&self.sql["list_columns"], &values![table]).await?;
        let name = |row| Reader::new("columns", table, row).get("name");
        rows.into_iter().map(name).collect()
    }

    /// Returns the versions of the applied migrations.
    async fn applied_versions(&self, bookkeeping: &str) -> Result<BTreeSet<i64>> {
        if !self.check_table(bookkeeping, BOOKKEEPING_COLUMNS, Strictness::Exact).await? {
            return Ok(BTreeSet::new());
        }
        let sql = self.sql["list_migrations"].replace("{table}", bookkeeping);
        let rows = self.read(&sql, &[]).await?;
        rows.into_iter().map(|row| Reader::new(bookkeeping, "", row).get("version")).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Exact,
    AtLeast,
}

/// The migrations of tables that belong together.
pub(crate) struct Migrations {
    migrator: Migrator,
    /// The quoted name of the bookkeeping table.
    pub(super) bookkeeping: String,
    /// The statement that deletes the entries of migrations that were cut short.
    forget: String,
}

impl Migrations {
    fn new<E: Engine>(
        migrations: &[MigrationFile],
        table: &str,
        bookkeeping: &str,
        forget: String,
    ) -> Self {
        let bookkeeping = format!("{0}{bookkeeping}{0}", E::QUOTE);
        let migration = |(version, (description, sql)): (i64, &(&'static str, &str))| {
            let sql = AssertSqlSafe(sql.replace("{table}", table)).into_sql_str();
            Migration::new(version, (*description).into(), MigrationType::Simple, sql, false)
        };
        let migrations = (1..).zip(migrations).map(migration).collect();
        let mut migrator = Migrator::with_migrations(migrations);
        migrator.dangerous_set_table_name(bookkeeping.clone());
        // Unknown migrations of a newer version must not keep this version from starting.
        migrator.set_ignore_missing(true);
        // Off, because sqlx's lock does nothing on SQLite and waits forever on MySQL; each engine
        // locks itself.
        migrator.set_locking(false);
        Self { migrator, bookkeeping, forget }
    }

    /// Applies the missing migrations. One that was cut short runs again, which is harmless.
    pub(super) async fn apply(
        &self,
        connection: &mut (impl RunSql + Migrate),
    ) -> Result<(), Failure> {
        connection.ensure_migrations_table(&self.bookkeeping).await?;
        connection.run(&self.forget, &[]).await?;
        Ok(self.migrator.run_direct(None, connection, false).await?)
    }
}
