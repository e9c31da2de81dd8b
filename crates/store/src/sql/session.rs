//! Sessions of a database, and the check that a statement ran in the right one.
//!
//! Setting up a session gives it a mark. The statement `session` returns the mark with facts of the
//! server, such as its start time and whether it is a standby. Every write compares that text
//! inside its statement, and reads return it where it matters. So a proxy that moves a client to
//! another session or server, or a server that restarts, makes writes match nothing;
//! [`Server::check_session`] then tells that apart from a refusal by the row.
//!
//! A session is set up again after `session_max`, because facts that the text does not contain may
//! change. Tests: tests/store/sessions.rs and poolers.rs.

use std::fmt::Display;

use tokio::time::Instant;

use crate::{Result, StoreError, value::Value};

/// The beginning of the text of the statement `session` in a session that was not set up.
const NOT_SET_UP: &str = "not set up";

/// A connection, and the facts about its server from when the session was set up.
#[derive(Debug)]
pub(crate) struct Session<C> {
    pub(super) connection: C,
    pub(super) server: Server,
    /// When it must be set up again, because the facts may have changed.
    pub(super) until: Instant,
}

/// The server of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// The text of the statement `session` in this session of this server.
    pub(super) session: String,
    /// The identity of the history that the server continues; empty if identities are not compared.
    /// See [`History`](raindrop_core::lease::History).
    pub(super) identity: String,
}

impl Server {
    /// Checks that a statement ran in the session that was set up.
    pub(super) fn check_session(&self, found: &str) -> Result<()> {
        if found == self.session {
            return Ok(());
        }
        if found.starts_with(NOT_SET_UP) {
            return Err(other_session("a statement ran in a server session that was not set up"));
        }
        Err(StoreError::unavailable(format!(
            "a session that was set up as {:?} is {found:?} now: the server has changed, or a proxy \
             sends statements to another one",
            self.session
        )))
    }
}

/// Returns the error for a statement that ran in another session than the one that was set up.
pub(super) fn other_session(seen: &str) -> StoreError {
    StoreError::unavailable(format!(
        "{seen}: a proxy or pooler in between gives statements to other sessions of the server, or \
         leaves in a session what its last client prepared"
    ))
}

/// Removes the last column of a query's rows, which is their number. Fails if fewer rows arrived.
pub(super) fn complete_rows(mut rows: Vec<Vec<Value>>, table: &str) -> Result<Vec<Vec<Value>>> {
    let received = rows.len();
    for row in &mut rows {
        let Some(Value::Integer(count)) = row.pop() else { continue };
        if usize::try_from(count) != Ok(received) {
            return Err(incomplete_rows(count, received, table));
        }
    }
    Ok(rows)
}

/// Returns the error for a query that returned only a part of its rows.
pub(super) fn incomplete_rows(count: impl Display, received: usize, table: &str) -> StoreError {
    let reason = format!(
        "{received} of the {count} rows of table {table} arrived: something limits what a query \
         returns"
    );
    StoreError::Refused(reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::values;

    #[test]
    fn part_of_a_table_is_refused_with_both_numbers() {
        let row = |name: &str| values![name, 2_i64].to_vec();
        let rows = complete_rows(vec![row("a"), row("b")], "codes").expect("all rows");
        assert_eq!(rows, [values!["a"], values!["b"]]);
        let error = complete_rows(vec![row("a")], "codes").expect_err("one of two");
        let StoreError::Refused(reason) = error else { panic!("{error}") };
        assert!(reason.to_string().contains("1 of the 2 rows of table codes"), "{reason}");
    }

    #[test]
    fn statement_of_another_session_is_refused() {
        let server = Server { session: "7 7 db 3306 1 OFF".into(), identity: String::new() };
        server.check_session("7 7 db 3306 1 OFF").expect("its own");
        let error = server.check_session("not set up 8 db 3306 1 OFF").expect_err("a pooler's");
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        let error = server.check_session("7 7 db 3306 1 ON").expect_err("read-only since");
        let StoreError::Unavailable(reason) = error else { panic!("{error}") };
        assert!(reason.to_string().contains("\"7 7 db 3306 1 ON\" now"), "{reason}");
    }
}
