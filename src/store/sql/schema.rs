//! Creating the tables, and leaving other people's alone.

use std::collections::BTreeSet;

use sqlx::{
    AssertSqlSafe, SqlSafeStr,
    migrate::{Migrate, Migration, MigrationType, Migrator},
};

use super::{
    connections::Connections,
    engine::{Engine, Failure, MigrationFile, Session},
};
use crate::store::{
    StoreError,
    value::{Reader, values},
};

/// sqlx's.
const BOOKKEEPING_COLUMNS: &[&str] =
    &["version", "description", "installed_on", "success", "checksum", "execution_time"];

/// Tables that are made together: their names with their columns.
pub(super) struct Schema<'a, E: Engine> {
    connections: &'a Connections<E>,
    tables: Vec<(String, &'static [&'static str])>,
    migrator: Migrator,
    /// The name of the migrations' bookkeeping table, and the same quoted.
    bookkeeping: String,
    quoted: String,
}

impl<'a, E: Engine> Schema<'a, E> {
    pub(super) fn new(
        connections: &'a Connections<E>,
        name: &'a str,
        tables: Vec<(String, &'static [&'static str])>,
        migrations: &[MigrationFile],
    ) -> Self {
        let bookkeeping = format!("{name}_migrations");
        let quote = E::DIALECT.quote;
        let quoted = format!("{quote}{bookkeeping}{quote}");
        let migrator = migrator(migrations, name, &quoted);
        Self { connections, tables, migrator, bookkeeping, quoted }
    }

    /// Creates the tables or checks them. Nothing is written before it is certain that no table
    /// is somebody else's.
    pub(super) async fn prepare(&self) -> Result<(), StoreError> {
        let Self { connections, tables, migrator, bookkeeping, quoted } = self;
        let applied = self.applied().await?;
        if applied.is_empty() {
            for (table, columns) in tables {
                let checked = self.check(table, columns, Strictness::Exact).await;
                // Another node may be making them just now, one step after the other.
                if checked.is_err() && !self.is_begun().await? {
                    return checked.map(drop);
                }
            }
        }
        if !migrator.iter().all(|migration| applied.contains(&migration.version)) {
            connections.migrate(migrator, quoted).await?;
        }
        for (table, columns) in tables {
            // A newer version of Raindrop may have added columns.
            if !self.check(table, columns, Strictness::AtLeast).await? {
                let names: Vec<&str> = tables.iter().map(|(name, _)| name.as_str()).collect();
                return Err(StoreError::Unusable(format!(
                    "table {table} is gone although {bookkeeping} says that it was created: \
                     restore it, or drop the rest of {} and {bookkeeping} to begin anew",
                    names.join(", ")
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
        let rows = self.connections.run(E::DIALECT.columns, &values![table]).await?.rows;
        let found: BTreeSet<String> = rows
            .into_iter()
            .map(|row| Reader::new("columns", table, row).get("name"))
            .collect::<Result<_, _>>()?;
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

    /// Whether a migration is done.
    async fn is_begun(&self) -> Result<bool, StoreError> {
        Ok(!self.applied().await?.is_empty())
    }

    /// The versions of the migrations that are done.
    async fn applied(&self) -> Result<BTreeSet<i64>, StoreError> {
        if !self.check(&self.bookkeeping, BOOKKEEPING_COLUMNS, Strictness::Exact).await? {
            return Ok(BTreeSet::new());
        }
        let sql = format!("SELECT version FROM {} WHERE success = TRUE", self.quoted);
        let rows = self.connections.run(&sql, &[]).await?.rows;
        rows.into_iter().map(|row| Reader::new(&self.bookkeeping, "", row).get("version")).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Exact,
    AtLeast,
}

/// The migrations with the table's name in place.
fn migrator(migrations: &[MigrationFile], table: &str, bookkeeping: &str) -> Migrator {
    let migration = |(version, (description, sql)): (i64, &(&'static str, &str))| {
        let sql = sql.replace("{table}", table);
        let sql = AssertSqlSafe(sql).into_sql_str();
        Migration::new(version, (*description).into(), MigrationType::Simple, sql, false)
    };
    let mut migrator = Migrator::with_migrations((1..).zip(migrations).map(migration).collect());
    migrator.dangerous_set_table_name(bookkeeping.to_owned());
    // A newer version's migrations do not keep this one from starting beside it.
    migrator.set_ignore_missing(true);
    // sqlx's own lock is none on SQLite and waits for ever on MySQL: the engines lock.
    migrator.set_locking(false);
    migrator
}

/// Applies what is missing. A migration that was cut short is run again: each is harmless when
/// it is repeated.
pub(super) async fn apply(
    connection: &mut (impl Session + Migrate),
    migrator: &Migrator,
    bookkeeping: &str,
) -> Result<(), Failure> {
    connection.ensure_migrations_table(bookkeeping).await?;
    let cut_short = format!("DELETE FROM {bookkeeping} WHERE success = FALSE");
    connection.run(&cut_short, &[]).await?;
    Ok(migrator.run_direct(None, connection, false).await?)
}
