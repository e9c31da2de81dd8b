//! Passwords in store addresses: hidden, found and put in.

/// The address with its password, and secrets among its parameters, replaced by `***`.
///
/// Errs on the side of hiding: everything between the first `:` and the last `@` of what follows
/// the scheme, since an unescaped password may hold any character. Of what is no address, but may
/// be another system's way to write one, nothing is shown.
pub fn hide_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        let may_tell = url.contains('@') || is_secret(url);
        return if may_tell { "***".into() } else { url.to_owned() };
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

/// Whether something is named here as secrets are.
fn is_secret(text: &str) -> bool {
    let text = text.to_lowercase();
    ["pass", "pwd", "secret"].iter().any(|name| text.contains(name))
}

/// The address with this password; `None` when it has one already, or no place for one.
pub(super) fn with_password(url: &str, password: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (user, address) = rest.split_once('@')?;
    if user.is_empty() || user.contains(':') || address.contains('@') {
        return None;
    }
    Some(format!("{scheme}://{user}:{}@{address}", percent_encode(password)))
}

/// Text as a part of an address: everything but letters, digits and `-._~` is escaped.
pub(crate) fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_wherever_they_stand() {
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
            // As Go's driver, ADO.NET and libpq write it, and with typing errors.
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
    fn a_password_is_escaped_and_never_replaces_another() {
        assert_eq!(
            with_password("mysql://root@db/ids", "p@ss:w/rd").as_deref(),
            Some("mysql://root:p%40ss%3Aw%2Frd@db/ids")
        );
        for url in ["mysql://root:x@db/ids", "mysql://db/ids", "sqlite://raindrop.db", "memory:"] {
            assert_eq!(with_password(url, "x"), None, "{url}");
        }
    }
}
