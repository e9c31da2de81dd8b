//! Opens sessions on servers, and checks their settings.

use sqlx::ConnectOptions;

use super::engine::Failure;
use crate::{Result, StoreError, TlsMode, tls::Protection, value::Value};

/// Connects with these options. If a server on another machine has no TLS, the error says which
/// setting to change.
pub(super) async fn connect<O: ConnectOptions<Connection: Sized>>(
    options: &O,
    Protection { mode, is_local }: Protection,
) -> Result<O::Connection, Failure> {
    options.connect().await.map_err(|error| match error {
        sqlx::Error::Tls(reason) if mode == TlsMode::Prefer && !is_local => {
            let advice = "give the server TLS, or set store.tls = \"off\" to send the password \
                          without protection";
            StoreError::unavailable(format!("{reason}: {advice}")).into()
        }
        // The driver's text quotes a character of the password.
        sqlx::Error::Configuration(reason) if reason.to_string().contains("saslprep") => {
            let reason = "PostgreSQL's driver cannot log in by scram-sha-256 with a password or user \
                          that has characters which RFC 4013 prohibits, such as emoji: set another one";
            StoreError::Unusable(reason.to_owned()).into()
        }
        sqlx::Error::Protocol(reason) => match unsupported_plugin(&reason) {
            Some(error) => error.into(),
            None => sqlx::Error::Protocol(reason).into(),
        },
        error => error.into(),
    })
}

/// Returns the error for an account whose authentication plugin sqlx does not have, such as
/// MariaDB's `ed25519`. sqlx names the plugin, or says that it does not send the password in clear
/// text.
fn unsupported_plugin(reason: &str) -> Option<StoreError> {
    let unknown = reason.split_once("unknown authentication plugin: ");
    let unknown = unknown.and_then(|(_, name)| name.split_whitespace().next());
    let is_clear = reason.contains("mysql_cleartext_plugin disabled");
    let name = unknown.or(is_clear.then_some("mysql_clear_password"))?;
    let text = format!(
        "the server wants the user to log in by the authentication plugin {name}, which is not \
         supported: let it use another one (MariaDB: ALTER USER … IDENTIFIED VIA \
         mysql_native_password USING PASSWORD('…'); MySQL: ALTER USER … IDENTIFIED WITH \
         caching_sha2_password BY '…'), or name another user in store.url"
    );
    Some(StoreError::Unusable(text))
}

/// Refuses a session unless each setting has its pinned value. A row has the name, the value found,
/// and the value wanted.
pub(super) fn check_pinned(settings: &[Vec<Value>]) -> Result<()> {
    for setting in settings {
        let [Value::Text(name), found, Value::Text(wanted)] = &setting[..] else {
            let reason = format!("the server answers {setting:?} for a setting");
            return Err(StoreError::Refused(reason.into()));
        };
        let as_switch = [("ON", "1"), ("OFF", "0")];
        let is_wanted = |found: &String| {
            found == wanted || as_switch.contains(&(found.as_str(), wanted.as_str()))
        };
        let found = match found {
            Value::Text(found) if is_wanted(found) => continue,
            Value::Text(found) => found,
            _ => "unknown",
        };
        return Err(not_pinned(name, wanted, found));
    }
    Ok(())
}

/// Returns the error for a setting that does not have its pinned value.
pub(super) fn not_pinned(name: &str, wanted: &str, found: &str) -> StoreError {
    StoreError::Unusable(format!(
        "a session must have {name} = {wanted}, but has {found} after it was set up: change it on the \
         server, or avoid the proxy that keeps back what sets it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::values;

    #[test]
    fn plugin_that_the_driver_lacks_is_named_with_the_way_out() {
        let said = "unknown authentication plugin: client_ed25519 (sqlx_mysql::protocol::auth:36)";
        for (said, name) in
            [(said, "client_ed25519"), ("mysql_cleartext_plugin disabled", "mysql_clear_password")]
        {
            let error = unsupported_plugin(said).expect(said);
            let text = error.to_string();
            assert!(error.is_permanent() && text.contains(&format!("plugin {name},")), "{text}");
            assert!(text.contains("mysql_native_password"), "{text}");
        }
        assert!(unsupported_plugin("unexpected packet 0x01 during authentication").is_none());
    }

    #[test]
    fn setting_that_was_not_set_is_refused_with_its_value() {
        let row = |name: &str, found: Value, wanted: &str| values![name, found, wanted].to_vec();
        let held = [row("autocommit", "ON".into(), "1"), row("sql_mode", "A".into(), "A")];
        check_pinned(&held).expect("as they were set");
        for (found, said) in [(Value::from("OFF"), "has OFF"), (Value::Null, "has unknown")] {
            let error = check_pinned(&[row("autocommit", found, "1")]).expect_err("another value");
            assert!(error.is_permanent() && error.to_string().contains(said), "{error}");
        }
        check_pinned(&[values!["autocommit", "1"].to_vec()]).expect_err("not a setting");
    }
}
