//! What a server session must be like before it runs our statements.

use std::fmt::Display;

use sqlx::ConnectOptions;

use super::engine::Failure;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use crate::tls::Protection;
use crate::{Result, StoreError, value::Value};

/// The identity of the server in a session that was not set up; see
/// [`Dialect::server`](super::engine::Dialect::server).
pub(super) const NOT_SET_UP: &str = "not set up";

/// Returns the error for a pooler that gives each transaction another server session.
pub(super) fn pooled(seen: impl Display) -> StoreError {
    StoreError::Unusable(format!(
        "a pooler in transaction mode stands between: {seen}. Settings of a session do not hold \
         there: use session mode (pool_mode = session), or the database's own port"
    ))
}

/// Connects as the options say. Where a server on another machine has no TLS, the error says what to
/// set.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) async fn connect<O: ConnectOptions<Connection: Sized>>(
    options: &O,
    protection: Protection,
) -> Result<O::Connection, Failure> {
    options.connect().await.map_err(|error| match error {
        sqlx::Error::Tls(reason) if protection.wants_tls() => {
            let advice = "give the server TLS, or set store.tls = \"off\" to send the password \
                          without protection";
            StoreError::Unavailable(format!("{reason}: {advice}").into()).into()
        }
        error => error.into(),
    })
}

/// Refuses a session unless each setting has the value that it was set to. `settings` has triples:
/// a name, what was found, and what is wanted.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn check_pinned(settings: &[Value]) -> Result<()> {
    for setting in settings.chunks(3) {
        let [Value::Text(name), found, Value::Text(wanted)] = setting else { continue };
        let as_switch = [("ON", "1"), ("OFF", "0")];
        let is_wanted = |found: &String| {
            found == wanted || as_switch.contains(&(found.as_str(), wanted.as_str()))
        };
        let found = match found {
            Value::Text(found) if is_wanted(found) => continue,
            Value::Text(found) => found,
            _ => "unknown",
        };
        return Err(StoreError::Unusable(format!(
            "a session must have {name} = {wanted}, but has {found} after it was set up: change it \
             on the server, or avoid the proxy that keeps back what sets it"
        )));
    }
    Ok(())
}

/// Takes the last column from the rows of a query: how many rows there are. Refuses a part of them.
pub(super) fn whole(mut rows: Vec<Vec<Value>>, table: &str) -> Result<Vec<Vec<Value>>> {
    let received = rows.len();
    for row in &mut rows {
        let Some(Value::Integer(count)) = row.pop() else { continue };
        if usize::try_from(count) != Ok(received) {
            let reason = format!(
                "{received} of the {count} rows of table {table} arrived: something limits what a \
                 query returns"
            );
            return Err(StoreError::Refused(reason.into()));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::values;

    #[test]
    fn part_of_a_table_is_refused_with_both_numbers() {
        let row = |name: &str| values![name, 2_i64].to_vec();
        let rows = whole(vec![row("a"), row("b")], "codes").expect("all rows");
        assert_eq!(rows, [values!["a"], values!["b"]]);
        let error = whole(vec![row("a")], "codes").expect_err("one of two");
        let StoreError::Refused(reason) = error else { panic!("{error}") };
        assert!(reason.to_string().contains("1 of the 2 rows of table codes"), "{reason}");
    }

    #[cfg(any(feature = "mysql", feature = "postgres"))]
    #[test]
    fn setting_that_was_not_set_is_refused_with_its_value() {
        let held = values!["autocommit", "ON", "1", "sql_mode", "ANSI", "ANSI"];
        check_pinned(&held).expect("as they were set");
        for (found, said) in [(Value::from("OFF"), "has OFF"), (Value::Null, "has unknown")] {
            let settings = [Value::from("autocommit"), found, "1".into()];
            let error = check_pinned(&settings).expect_err("another value");
            assert!(error.is_permanent() && error.to_string().contains(said), "{error}");
        }
    }
}
