//! Passwords that are put into store addresses.

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
