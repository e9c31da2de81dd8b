//! Reads the named statements of an engine's file.

use std::{collections::HashMap, sync::Arc};

use crate::StoreSettings;

/// The statements of one engine by their names, with the tables' names filled in; clones share
/// them. Each engine has those that the shared logic uses, and some of its own; a test compares
/// them with the files.
pub(crate) type Statements = Arc<HashMap<&'static str, String>>;

/// Parses an engine's file. A statement follows a line with its name, and ends with a semicolon;
/// comments are dropped.
pub(super) fn read(file: &'static str, settings: &StoreSettings) -> Statements {
    let statement = |part: &'static str| {
        let (name, rest) = part.split_once('\n')?;
        let (sql, _) = rest.split_once(";\n")?;
        let lines = sql.lines().filter(|line| !line.trim_start().starts_with("--"));
        let sql = lines.collect::<Vec<_>>().join("\n");
        let sql = sql.replace("{worker}", &settings.worker_table);
        Some((name, sql.replace("{segment}", &settings.segment_table)))
    };
    Arc::new(file.split("-- name: ").skip(1).filter_map(statement).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each engine's statements, and the file that uses those of its own.
    const FILES: [(&str, &str); 3] = [
        (include_str!("mysql.sql"), include_str!("mysql.rs")),
        (include_str!("postgres.sql"), include_str!("postgres.rs")),
        (include_str!("sqlite.sql"), include_str!("sqlite.rs")),
    ];
    /// The files that use the statements of every engine.
    const SHARED: [&str; 4] = [
        include_str!("connections.rs"),
        include_str!("mod.rs"),
        include_str!("schema.rs"),
        include_str!("segments.rs"),
    ];
    /// The statements that read tables of other services.
    const FOREIGN: [&str; 3] = ["read_cosid", "read_leaf", "read_tinyid"];

    #[test]
    fn each_file_has_the_statements_that_are_used_and_no_others() {
        for (file, own) in FILES {
            let mut found: Vec<_> = read(file, &StoreSettings::default()).keys().copied().collect();
            let sources = SHARED.iter().chain([&own]);
            let named = sources.flat_map(|source| source.split("sql[\"").skip(1));
            let named = named.filter_map(|rest| rest.split_once("\"]")).map(|(name, _)| name);
            let mut expected: Vec<_> = named.chain(FOREIGN).collect();
            found.sort_unstable();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(found, expected);
            assert_eq!(
                file.matches("-- name: ").count(),
                found.len(),
                "each ends with a semicolon"
            );
        }
    }

    #[test]
    fn statement_has_the_names_of_the_tables_and_no_comments() {
        let settings = StoreSettings { worker_table: "w".into(), ..StoreSettings::default() };
        let sql = &read(FILES[2].0, &settings)["count_rows"];
        assert!(sql.starts_with("SELECT COUNT(*)\nFROM \"w\"\nWHERE "), "{sql}");
        assert!(!sql.contains("--") && !sql.contains(';'), "{sql}");
    }
}
