//! The named statements of an engine's file.

use crate::{Result, StoreError, StoreSettings};

/// Defines [`Statements`], with a field for each statement that every engine has.
macro_rules! statements {
    ($($name:ident)*) => {
        /// The statements of one engine, with the tables' names in place.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: String,)*
        }

        impl Statements {
            /// Reads an engine's file.
            pub(super) fn read(file: &str, settings: &StoreSettings) -> Result<Self> {
                Ok(Self { $($name: with_tables(file, stringify!($name), settings)?,)* })
            }

            #[cfg(test)]
            const NAMES: &[&str] = &[$(stringify!($name)),*];
        }
    };
}

statements! {
    durability
    list_columns
    list_migrations
    forget_unfinished_migrations
    create_record
    read_record
    swap_record
    count_rows
    create_rows
    survey
    free_rows
    free_rows_of_holder
    read_row
    swap_row
    list_rows
    create_segments
    reserve
    create_or_reserve
    read_segment
    give_back
    count_segments
    list_segments
    list_managed_codes
    create_managed_code
    count_managed_code
    swap_managed_code
}

/// Returns a statement of a file, with the tables' names in place.
pub(super) fn with_tables(file: &str, name: &str, settings: &StoreSettings) -> Result<String> {
    let sql = find(file, name)?.replace("{worker}", &settings.worker_table);
    Ok(sql.replace("{segment}", &settings.segment_table))
}

/// Returns a statement of a file, without comments.
pub(super) fn find(file: &str, name: &str) -> Result<String> {
    let found = named(file).find(|(found, _)| *found == name);
    found.map(|(_, sql)| sql).ok_or_else(|| {
        StoreError::Unusable(format!("there is no statement {name} for this kind of database"))
    })
}

/// The statements of a file, each after a line with its name and up to a semicolon.
fn named(file: &str) -> impl Iterator<Item = (&str, String)> {
    file.split("-- name: ").skip(1).filter_map(|part| {
        let (name, rest) = part.split_once('\n')?;
        let (sql, _) = rest.split_once(";\n")?;
        let lines = sql.lines().filter(|line| !line.trim_start().starts_with("--"));
        Some((name, lines.collect::<Vec<_>>().join("\n")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tables of other services are read by.
    const FOREIGN: [&str; 3] = ["read_cosid", "read_leaf", "read_tinyid"];

    /// The files, each with the names of the statements that it alone has.
    const FILES: [(&str, &[&str]); 3] = [
        (include_str!("mysql.sql"), &["facts", "lock_migrations", "session", "sources"]),
        (include_str!("postgres.sql"), &["facts", "history", "lock_migrations", "session"]),
        (include_str!("sqlite.sql"), &["session"]),
    ];

    #[test]
    fn each_file_has_the_statements_that_are_used_and_no_others() {
        for (file, own) in FILES {
            let mut found: Vec<_> = named(file).map(|(name, _)| name).collect();
            let mut expected = [Statements::NAMES, own, &FOREIGN].concat();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
            assert_eq!(
                file.matches("-- name: ").count(),
                found.len(),
                "each ends with a semicolon"
            );
            Statements::read(file, &StoreSettings::default()).expect("all statements");
        }
    }

    #[test]
    fn statement_has_the_names_of_the_tables_and_no_comments() {
        let settings = StoreSettings { worker_table: "w".into(), ..StoreSettings::default() };
        let sql = Statements::read(FILES[2].0, &settings).expect("all statements").count_rows;
        assert!(sql.starts_with("SELECT COUNT(*)\nFROM \"w\"\nWHERE "), "{sql}");
        assert!(!sql.contains("--") && !sql.contains(';'), "{sql}");
    }
}
