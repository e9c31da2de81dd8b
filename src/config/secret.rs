//! Passwords in store addresses.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the address with its password, and secrets among its parameters, replaced by `***`.
///
/// Hides too much rather than too little: everything between the first `:` and the last `@` after
/// the scheme, since an unescaped password may hold any character; and the whole text where it may
/// be an address in another system's format.
pub fn hide_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        let may_leak = url.contains('@') || is_secret(url);
        return if may_leak { "***".into() } else { url.to_owned() };
    };
    let shown = match rest.rsplit_once('@') {
        Some((user_info, address)) => {
            let user = user_info.split(':').next().unwrap_or_default();
            let hidden = if user.len() == user_info.len() { "" } else { ":***" };
            format!("{user}{hidden}@{address}")
        }
        None => rest.to_owned(),
    };
    format!("{scheme}://{}", hide_parameters(&shown))
}

fn hide_parameters(url: &str) -> String {
    let Some((address, query)) = url.split_once('?') else { return url.to_owned() };
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=***"),
        _ => pair.to_owned(),
    };
    let pairs: Vec<String> = query.split('&').map(hide).collect();
    format!("{address}?{}", pairs.join("&"))
}

/// Whether the text contains a usual name of a secret.
fn is_secret(text: &str) -> bool {
    let text = text.to_lowercase();
    ["pass", "pwd", "secret"].iter().any(|name| text.contains(name))
}

/// Puts a password into an address; `None` when it has one already, or no user.
pub(super) fn with_password(url: &str, password: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (user, address) = rest.split_once('@')?;
    if user.is_empty() || user.contains(':') || address.contains('@') {
        return None;
    }
    Some(format!("{scheme}://{user}:{}@{address}", percent_encode(password)))
}

/// Escapes a part of an address: every byte except letters, digits and `-._~`.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_in_every_format() {
        for (url, shown) in [
            ("sqlite://raindrop.db", "sqlite://raindrop.db"),
            ("memory:", "memory:"),
            ("mysql://root@db/ids", "mysql://root@db/ids"),
            ("mysql://root:s3cret@db:3306/ids", "mysql://root:***@db:3306/ids"),
            ("mysql://root:s3/c?r#e:t@db/ids", "mysql://root:***@db/ids"),
            ("mysql://root:a@b@db/ids", "mysql://root:***@db/ids"),
            ("mysql://db/ids?user=a&Password=s3cret", "mysql://db/ids?user=a&Password=***"),
            (
                "mysql://db/ids?Pwd=s3cret&ssl-mode=required",
                "mysql://db/ids?Pwd=***&ssl-mode=required",
            ),
            ("raindrop.db", "raindrop.db"),
            ("sqlite:raindrop.db?mode=rwc", "sqlite:raindrop.db?mode=rwc"),
            // The formats of Go's driver, ADO.NET and libpq, and typing errors.
            ("u:s3cret@tcp(h:3306)/db", "***"),
            ("Server=h;Uid=u;Pwd=s3cret;", "***"),
            ("host=h user=u password=s3cret", "***"),
            ("mysql:/u:s3cret@h/db", "***"),
            ("mysql//u:s3cret@h/db", "***"),
        ] {
            assert_eq!(hide_password(url), shown);
        }
    }

    #[test]
    fn an_inserted_password_is_escaped() {
        assert_eq!(
            with_password("mysql://root@db/ids", "p@ss:w/rd").as_deref(),
            Some("mysql://root:p%40ss%3Aw%2Frd@db/ids")
        );
        for url in ["mysql://root:x@db/ids", "mysql://db/ids", "sqlite://raindrop.db", "memory:"] {
            assert_eq!(with_password(url, "x"), None, "{url}");
        }
    }
}
