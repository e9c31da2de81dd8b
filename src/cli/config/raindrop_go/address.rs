//! Addresses of raindrop-Go's databases as store addresses.

use std::net::Ipv6Addr;

use form_urlencoded::{Serializer, parse};

use crate::config::percent_encode;

/// The form of a Go data source name.
const MYSQL_FORM: &str = "user:password@tcp(host:port)/database?parameter=value, as the Go driver \
                          reads it: a / among the parameters is %2F";
/// The form of the text that raindrop-Go puts after `postgres://`.
const POSTGRES_FORM: &str = "user:password@host:port/database?parameter=value, as in an address: a \
                             / in the password is %2F";
/// The parameters of PostgreSQL addresses that Raindrop has under the same name.
const POSTGRES_PARAMETERS: [&str; 6] =
    ["sslmode", "sslrootcert", "sslcert", "sslkey", "application_name", "options"];

/// A converted store address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) url: String,
    pub(super) has_password: bool,
    /// The parts that were left out or changed, a sentence each.
    pub(super) warnings: Vec<String>,
}

/// Returns whether a text can only be an address of MySQL.
pub(super) fn looks_like_mysql(text: &str) -> bool {
    ["@tcp(", "@(", "@unix("].iter().any(|part| text.contains(part))
}

/// Reads a data source name of github.com/go-sql-driver/mysql:
/// `[user[:password]@][protocol[(address)]]/database[?parameters]`.
///
/// # Errors
///
/// The form, as a phrase that follows "must be"; never a part of the text, which holds a password.
pub(super) fn mysql(text: &str) -> Result<Address, &'static str> {
    // Split as the driver does: a password may contain any character, the name of a database no
    // slash.
    let (before, after) = text.rsplit_once('/').ok_or(MYSQL_FORM)?;
    let (database, parameters) = after.split_once('?').unwrap_or((after, ""));
    let (login, network) = before.rsplit_once('@').ok_or(MYSQL_FORM)?;
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    if user.is_empty() || database.is_empty() {
        return Err(MYSQL_FORM);
    }
    let (protocol, place) = match network.split_once('(') {
        Some((protocol, rest)) => (protocol, rest.strip_suffix(')').ok_or(MYSQL_FORM)?),
        None => (network, ""),
    };
    let mut query = Serializer::new(String::new());
    let host = match (protocol, place) {
        ("" | "tcp", "") => "127.0.0.1:3306",
        ("" | "tcp", place) if is_host(place) => place,
        ("unix", socket) if !socket.is_empty() => {
            query.append_pair("socket", socket);
            "localhost"
        }
        _ => return Err(MYSQL_FORM),
    };
    let mut warnings = Vec::new();
    for (name, value) in parse(parameters.as_bytes()) {
        match &*name {
            // These affect only how the Go driver reads rows. Raindrop stores UTC and ASCII.
            "charset" | "collation" | "parseTime" | "loc" => {}
            "tls" => {
                let mode = match &*value {
                    "true" => "VERIFY_IDENTITY",
                    "skip-verify" => "REQUIRED",
                    "preferred" => "PREFERRED",
                    "false" => "DISABLED",
                    _ => {
                        warnings.push(format!(
                            "the TLS configuration {value:?} is in your Go code: name its \
                             certificates with ssl-ca, ssl-cert and ssl-key in store.url"
                        ));
                        "VERIFY_IDENTITY"
                    }
                };
                query.append_pair("ssl-mode", mode);
            }
            "timeout" | "readTimeout" | "writeTimeout" => {
                warnings.push(format!("{name}={value} was left out: see store.timeout"));
            }
            _ => warnings.push(left_out(&name)),
        }
    }
    let [user, secret] = [user, password].map(percent_encode);
    let login = if secret.is_empty() { user } else { format!("{user}:{secret}") };
    let database =
        if database.contains('%') { database.to_owned() } else { percent_encode(database) };
    let url = format!("mysql://{login}@{host}/{database}{}", query_of(query));
    Ok(Address { url, has_password: !secret.is_empty(), warnings })
}

/// Reads the text that raindrop-Go puts after `postgres://`, which may contain the scheme, too.
///
/// # Errors
///
/// The form, as a phrase that follows "must be".
pub(super) fn postgres(text: &str) -> Result<Address, &'static str> {
    let text = text.trim();
    let text = text.strip_prefix("postgres://").unwrap_or(text);
    let text = text.strip_prefix("postgresql://").unwrap_or(text);
    let (base, parameters) = text.split_once('?').unwrap_or((text, ""));
    let (login, place) = base.rsplit_once('@').ok_or(POSTGRES_FORM)?;
    let (host, database) = place.split_once('/').ok_or(POSTGRES_FORM)?;
    if login.is_empty() || login.contains(['/', '#']) || database.is_empty() || !is_host(host) {
        return Err(POSTGRES_FORM);
    }
    let (known, unknown): (Vec<_>, Vec<_>) =
        parse(parameters.as_bytes()).partition(|(name, _)| POSTGRES_PARAMETERS.contains(&&**name));
    let mut query = Serializer::new(String::new());
    query.extend_pairs(known);
    Ok(Address {
        url: format!("postgres://{base}{}", query_of(query)),
        has_password: login.split_once(':').is_some_and(|(_, password)| !password.is_empty()),
        warnings: unknown.into_iter().map(|(name, _)| left_out(&name)).collect(),
    })
}

fn query_of(mut pairs: Serializer<'_, String>) -> String {
    let pairs = pairs.finish();
    if pairs.is_empty() { pairs } else { format!("?{pairs}") }
}

fn left_out(name: &str) -> String {
    format!("the parameter {name} has no counterpart and was left out")
}

/// Returns whether a text is one host, with or without a port. An IPv6 address is in brackets.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, port),
        _ => (text, "0"),
    };
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = !host.is_empty() && host.bytes().all(of_name);
    let is_ipv6 = in_brackets.is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok());
    (is_name || is_ipv6) && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(read: Result<Address, &'static str>) -> String {
        read.expect("an address").url
    }

    #[test]
    fn data_source_names_of_the_go_driver_are_read() {
        for (text, expected) in [
            ("root:pw@tcp(db:3306)/ids", "mysql://root:pw@db:3306/ids"),
            (
                "root:pw@(10.0.0.1:3306)/ids?charset=utf8mb4&parseTime=True&loc=Asia%2FShanghai",
                "mysql://root:pw@10.0.0.1:3306/ids",
            ),
            ("root@tcp(db)/ids", "mysql://root@db/ids"),
            ("root:@/ids", "mysql://root@127.0.0.1:3306/ids"),
            ("root:p@s/s:w?d@tcp([::1]:3306)/ids", "mysql://root:p%40s%2Fs%3Aw%3Fd@[::1]:3306/ids"),
            (
                "root:pw@unix(/run/mysqld/mysqld.sock)/ids",
                "mysql://root:pw@localhost/ids?socket=%2Frun%2Fmysqld%2Fmysqld.sock",
            ),
            ("a:b@tcp(db)/ids?tls=skip-verify", "mysql://a:b@db/ids?ssl-mode=REQUIRED"),
            ("a:b@tcp(db)/ids?tls=true", "mysql://a:b@db/ids?ssl-mode=VERIFY_IDENTITY"),
        ] {
            let read = mysql(text).expect(text);
            assert_eq!((read.url.as_str(), read.warnings), (expected, vec![]), "{text}");
        }
    }

    #[cfg(feature = "mysql")]
    #[test]
    fn the_driver_here_reads_the_same_from_it() {
        let url = url(mysql("ro ot:p@s/s:w?d#%@tcp([::1]:3307)/id-s?tls=preferred"));
        let options: sqlx::mysql::MySqlConnectOptions = url.parse().expect("an address");
        assert_eq!((options.get_host(), options.get_port()), ("[::1]", 3307));
        assert_eq!((options.get_username(), options.get_database()), ("ro ot", Some("id-s")));
        assert!(url.contains(":p%40s%2Fs%3Aw%3Fd%23%25@"), "{url}");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn addresses_of_postgres_stay_as_they_are() {
        let text = "app:p%40ss@db:5432/ids?sslmode=disable";
        assert_eq!(url(postgres(text)), format!("postgres://{text}"));
        assert_eq!(url(postgres(&format!(" postgres://{text}"))), format!("postgres://{text}"));
        let options: sqlx::postgres::PgConnectOptions =
            url(postgres(text)).parse().expect("an address");
        assert_eq!((options.get_host(), options.get_port()), ("db", 5432));
        let read = postgres("app@db/ids?pool_max_conns=3&sslmode=require").expect("an address");
        assert_eq!(read.url, "postgres://app@db/ids?sslmode=require");
        assert!(
            !read.has_password && read.warnings.len() == 1 && read.warnings[0].contains("pool")
        );
    }

    #[test]
    fn what_has_no_counterpart_is_told() {
        let read = mysql("a:b@tcp(db)/ids?tls=custom&timeout=5s&multiStatements=true");
        let warnings = read.expect("an address").warnings;
        for (warning, said) in warnings.iter().zip(["\"custom\"", "store.timeout", "multiSt"]) {
            assert!(warning.contains(said), "{warnings:?}");
        }
        assert_eq!(warnings.len(), 3);
    }

    #[test]
    fn other_texts_are_refused_without_showing_them() {
        for text in [
            "",
            "secret",
            "secret@tcp(db)",
            "a:secret@tcp(db)/",
            ":secret@tcp(db)/ids",
            "a:secret@tcp(db/ids",
            "a:secret@pipe(x)/ids",
            "a:secret@tcp(d b)/ids",
            "a:secret@tcp(db:port)/ids",
        ] {
            let error = mysql(text).expect_err(text);
            assert!(error.contains("@tcp(host:port)/") && !error.contains("secret"), "{error}");
        }
        for text in [
            "",
            "secret",
            "a:secret@db",
            "a:secret@db/",
            "a:secret@one,two/ids",
            "a:secret/secret@db/ids",
        ] {
            let error = postgres(text).expect_err(text);
            assert!(error.contains("@host:port/") && !error.contains("secret"), "{error}");
        }
    }
}
