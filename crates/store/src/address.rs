//! Store addresses, and their display without secrets in logs and errors.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::StoreSettings;

/// The address of a store. `Display` and `Debug` hide the password and other secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// Wraps an address as the operator wrote it.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// Returns the address with its secrets.
    pub(super) fn secret(&self) -> &str {
        &self.0
    }

    /// Returns whether it is the store in the memory of this process.
    pub fn is_memory(&self) -> bool {
        self.0 == "memory:"
    }

    /// Returns the absolute path of a SQLite store's file, or `None` for another store. A relative
    /// address names another file in another working folder.
    pub fn sqlite_file(&self) -> Option<PathBuf> {
        let file = self.0.strip_prefix("sqlite:")?;
        let file = file.strip_prefix("//").unwrap_or(file);
        let path = Path::new(file.split('?').next().unwrap_or(file));
        Some(std::path::absolute(path).unwrap_or_else(|_| path.into()))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact_url(&self.0))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&redact_url(&self.0), f)
    }
}

/// Reads the address of a store again for each login, because its password may be rotated.
#[derive(Clone)]
pub struct UrlSource(Arc<dyn Fn() -> Option<StoreUrl> + Send + Sync>);

impl UrlSource {
    /// Wraps a function that reads the address. It returns `None` if it cannot read it at present.
    pub fn new(read: impl Fn() -> Option<StoreUrl> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

#[cfg(any(feature = "redis", feature = "sql"))]
impl UrlSource {
    pub(super) fn read(&self) -> Option<StoreUrl> {
        (self.0)()
    }
}

impl fmt::Debug for UrlSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UrlSource")
    }
}

impl PartialEq for UrlSource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for UrlSource {}

/// The parameters whose values never hold a secret.
const HARMLESS_PARAMETERS: &[&str] = &[
    "cache",
    "charset",
    "context",
    "host",
    "kubeconfig",
    "mode",
    "namespace",
    "port",
    "sentinel-user",
    "ssl-mode",
    "sslmode",
    "user",
];

/// Returns a store's address with every part that may hold a secret replaced by `***`.
///
/// Hides too much rather than too little. An unescaped password may contain any character. Only
/// parameters that are known to be harmless are shown. A text that is no URL may be an address in
/// another system's format.
fn redact_url(url: &str) -> String {
    if url.starts_with("sqlite:") || url.starts_with("kubernetes:") {
        return hide_parameters(url);
    }
    let is_scheme = |text: &str| {
        let text = text.strip_suffix("+sentinel").unwrap_or(text);
        text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
        let may_leak = url.trim_end_matches(':').contains(['@', '=', ':', '?', '#', ';', '&']);
        return if may_leak { "***".to_owned() } else { url.to_owned() };
    };
    let (user_info, address) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (hosts, after) =
        address.split_at(address.find(['/', '?', '#', ';']).unwrap_or(address.len()));
    let path = after.split(['?', '#', ';']).next().unwrap_or_default();
    // The last '@' may be in the value of a parameter, and the text after it a part of a password.
    // A port that is no number is a password whose host is missing. A `&` or `=` before the first
    // `?` belongs to a parameter, not to a host or path.
    if user_info.contains(['?', '#'])
        || !hosts.split(',').all(is_host)
        || hosts.contains(['&', '='])
        || path.contains(['&', '='])
    {
        return format!("{scheme}://***");
    }
    let user = match user_info.split_once(':') {
        None if !rest.contains('@') => String::new(),
        Some((user, _)) if is_name(user) => format!("{user}:***@"),
        // A Redis password needs no user, and is often written in the place of the user.
        None if is_name(user_info) && !scheme.starts_with("redis") => format!("{user_info}@"),
        _ => "***@".to_owned(),
    };
    format!("{scheme}://{user}{hosts}{}", hide_parameters(after))
}

/// Returns whether a text can be a host, with or without a port.
fn is_host(text: &str) -> bool {
    let port = text.split_once(':').filter(|_| !text.starts_with('['));
    port.is_none_or(|(_, port)| port.parse::<u16>().is_ok())
}

/// Identifies the store of worker rows on this machine, without secrets: two processes with the
/// same identity use the same rows.
pub fn identity(settings: &StoreSettings) -> String {
    let table = &settings.worker_table;
    let address = match settings.url.sqlite_file() {
        Some(path) => format!("sqlite:{}", path.display()),
        None => settings.url.to_string(),
    };
    format!("{address} table {table}")
}

/// Explains percent-encoding if the user or password of an address has a character that ends them
/// early. It does not name the character, which would be a part of the password.
pub(super) fn escaping_hint(url: &str) -> Option<&'static str> {
    let (scheme, rest) = url.split_once("://")?;
    let (user_info, _) = rest.rsplit_once('@')?;
    let is_escape =
        |code: &str| code.get(..2).is_some_and(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
    let is_broken = user_info.contains(['#', '/', '?', '@'])
        || user_info.split('%').skip(1).any(|code| !is_escape(code));
    (is_broken && scheme != "sqlite").then_some(
        "in a user or password, # must be written as %23, / as %2F, ? as %3F, @ as %40 and % as \
         %25 (percent-encoding); or leave the password out, and put it into a file as it is: \
         store.password_file",
    )
}

/// Returns whether a part of a password is in the place of the host: an `@` follows the hosts,
/// outside the values of parameters, which may contain `@`.
pub(super) fn has_torn_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let Some(end) = rest.find(['/', '?', '#']) else { return false };
    let (path, parameters) = rest[end..].split_once('?').unwrap_or((&rest[end..], ""));
    let is_torn = |parameter: &str| parameter.split('=').next().is_some_and(|it| it.contains('@'));
    path.contains('@') || parameters.split('&').any(is_torn)
}

/// Returns whether a text can be a user's name, rather than a part of an address without a user.
fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || "._-%".contains(c))
}

/// Hides the first parameter that may hold a secret, and everything after it.
fn hide_parameters(address: &str) -> String {
    let mut parts = address.split_inclusive(['?', '#', ';', '&']);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('=') {
            Some((name, _)) if HARMLESS_PARAMETERS.contains(&&*name.to_ascii_lowercase()) => {
                shown.push_str(part);
            }
            Some((name, _)) => return format!("{shown}{name}=***"),
            None => return format!("{shown}***"),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_in_every_part_and_format() {
        for (url, shown) in [
            ("sqlite://raindrop.db", "sqlite://raindrop.db"),
            ("sqlite:raindrop.db?mode=rwc", "sqlite:raindrop.db?mode=rwc"),
            ("sqlite:///data/a:b@c.db", "sqlite:///data/a:b@c.db"),
            ("sqlite://a.db?mode=rwc&key=s3cret", "sqlite://a.db?mode=rwc&key=***"),
            ("kubernetes:", "kubernetes:"),
            ("kubernetes:?namespace=a&token=s3cret", "kubernetes:?namespace=a&token=***"),
            ("memory:", "memory:"),
            ("raindrop.db", "raindrop.db"),
            ("mysql:", "mysql:"),
            ("", ""),
            ("mysql://db/ids", "mysql://db/ids"),
            ("mysql://root@db/ids", "mysql://root@db/ids"),
            ("mysql://@/ids", "mysql://@/ids"),
            // The user and the password.
            ("mysql://root:s3cret@db:3306/ids", "mysql://root:***@db:3306/ids"),
            ("mysql://root:s3/c;r=e:t@db/ids", "mysql://root:***@db/ids"),
            ("mysql://root:s3c?ret@db/ids", "mysql://***"),
            ("mysql://root:s3c#ret@db/ids", "mysql://***"),
            ("mysql://root:a@s3cret@db/ids", "mysql://root:***@db/ids"),
            ("mysql://root:p%40s3cret@[::1]:1/ids", "mysql://root:***@[::1]:1/ids"),
            ("redis://:s3cret@host", "redis://:***@host"),
            ("rediss://u:s3cret@host:1/2", "rediss://u:***@host:1/2"),
            ("redis://s3cret@host", "redis://***@host"),
            ("rediss://s3cret@host:1/2", "rediss://***@host:1/2"),
            ("mysql://h/d&ssl_mode=s3cret@h", "mysql://***@h"),
            ("mysql://h&password=s3cret/db", "mysql://***"),
            ("mysql://h/db&password=s3cret", "mysql://***"),
            // Several hosts.
            ("mysql://u:s3cret@a:1,b,[::1]:2/ids", "mysql://u:***@a:1,b,[::1]:2/ids"),
            ("postgres://u:s3,cr,et@a,b:1/ids", "postgres://u:***@a,b:1/ids"),
            ("mysql://root:s3,cret/ids", "mysql://***"),
            ("mysql://a,root:s3,cret/ids", "mysql://***"),
            ("mysql://u:s3cret@a,u:s3cret@b/ids", "mysql://u:***@b/ids"),
            ("mysql://root:s3cret:1/ids", "mysql://***"),
            ("redis://s3cret@a,b/0", "redis://***@a,b/0"),
            ("redis+sentinel://:s3cret@a:1,b/ids/0", "redis+sentinel://:***@a:1,b/ids/0"),
            ("rediss+sentinel://s3cret@a/ids", "rediss+sentinel://***@a/ids"),
            (
                "redis+sentinel://a/ids?sentinel-user=u&sentinel-password=s3cret",
                "redis+sentinel://a/ids?sentinel-user=u&sentinel-password=***",
            ),
            // The parameters.
            (
                "mysql://u:s3cret@host:1/db?ssl-mode=REQUIRED",
                "mysql://u:***@host:1/db?ssl-mode=REQUIRED",
            ),
            ("postgresql://h/db?user=u&password=s3cret", "postgresql://h/db?user=u&password=***"),
            ("mysql://db/ids?Pwd=s3cret&ssl-mode=required", "mysql://db/ids?Pwd=***"),
            ("mysql://u@h/db?SSLPassword=s3cret", "mysql://u@h/db?SSLPassword=***"),
            ("mysql://h/db?p%61ss=s3cret", "mysql://h/db?p%61ss=***"),
            ("mysql://h/db?token=s3cret", "mysql://h/db?token=***"),
            ("postgres://u@h/db?pwd=s3cret", "postgres://u@h/db?pwd=***"),
            ("postgres://u@h/db?pass=s3cret&sslmode=require", "postgres://u@h/db?pass=***"),
            ("postgres://u@h/db?sslpassword=s3cret", "postgres://u@h/db?sslpassword=***"),
            ("mysql://h/db?user=u;password=s3cret", "mysql://h/db?user=u;password=***"),
            ("mysql://h/db?password=a&s3cret", "mysql://h/db?password=***"),
            ("mysql://h:1/db?password=a@s3cret", "mysql://***"),
            ("mysql://h;Uid=u;Pwd=s3cret", "mysql://h;Uid=***"),
            ("mysql://h/db?user=u&s3cret", "mysql://h/db?user=u&***"),
            ("mysql://h/db#s3cret", "mysql://h/db#***"),
            // Typing errors and the formats of Go's driver, ADO.NET, libpq and JDBC.
            ("mysql://root:s3cret/ids", "mysql://***"),
            ("root:s3cret", "***"),
            ("db?s3cret", "***"),
            ("mysql:/u:s3cret@h/db", "***"),
            ("mysql//u:s3cret@h/db", "***"),
            ("u:s3cret@tcp(h:3306)/db", "***"),
            ("u:s3cret@tcp://h:3306/db", "***"),
            ("Server=h;Uid=u;Pwd=s3cret;", "***"),
            ("host=h user=u password=s3cret", "***"),
            ("jdbc:mysql://h/db?password=s3cret", "***"),
        ] {
            assert_eq!(redact_url(url), shown);
        }
    }
}
