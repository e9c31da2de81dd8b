//! Log lines about tokens at the start, and before they expire.

use std::net::SocketAddr;

use super::Auth;
use crate::core::instant::format_unix_ms_short;

/// A warning names tokens that expire within this time.
const SOON_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// The largest number of names in a warning.
const NAMED: usize = 10;

/// Logs whether requests to this address need a token.
pub(crate) fn announce(auth: Option<&Auth>, address: SocketAddr, now_ms: i64) {
    match auth {
        Some(auth) => {
            let (file, tokens) = (auth.file.display(), auth.count());
            tracing::info!(%file, tokens, "authentication required");
            auth.warn_of_expiry(now_ms);
        }
        None if is_open(address) => tracing::warn!(
            %address,
            "authentication is off: every client that reaches this address gets IDs; set \
             auth.tokens_file to require tokens"
        ),
        None => {}
    }
}

/// Returns whether other machines can reach this address.
fn is_open(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

impl Auth {
    /// Logs which tokens have expired or expire soon.
    pub(super) fn warn_of_expiry(&self, now_ms: i64) {
        let (expired, soon) = self.expiring(now_ms);
        if !expired.is_empty() {
            tracing::warn!(tokens = first(expired), "tokens have expired");
        }
        if !soon.is_empty() {
            tracing::warn!(tokens = first(soon), "tokens expire within 7 days");
        }
    }

    /// Returns the names that have expired and the names that expire soon. A name with several
    /// entries expires with the last one, so an old token that a newer one replaces causes no
    /// warning.
    fn expiring(&self, now_ms: i64) -> (Vec<String>, Vec<String>) {
        let (mut expired, mut soon) = (Vec::new(), Vec::new());
        for (name, named) in self.tokens.load().by_name() {
            let Some(expires_ms) = named.expires_ms else { continue };
            let described = || format!("{name} ({})", format_unix_ms_short(expires_ms));
            if expires_ms <= now_ms {
                expired.push(described());
            } else if expires_ms.saturating_sub(now_ms) <= SOON_MS {
                soon.push(described());
            }
        }
        (expired, soon)
    }
}

/// Joins the first [`NAMED`] names and the number of further ones.
fn first(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{NOW_MS, entry, open},
        *,
    };

    #[test]
    fn addresses_that_others_may_reach_are_open() {
        for (address, is_open_to_others) in [
            ("127.0.0.1:80", false),
            ("127.9.9.9:80", false),
            ("[::1]:80", false),
            ("[::ffff:127.0.0.1]:80", false),
            ("0.0.0.0:80", true),
            ("[::]:80", true),
            ("10.0.0.7:80", true),
            ("[::ffff:10.0.0.7]:80", true),
        ] {
            let parsed = address.parse().expect("an address");
            assert_eq!(is_open(parsed), is_open_to_others, "{address}");
        }
    }

    #[test]
    fn names_that_expire_are_told_by_their_last_entry() {
        let expiring = |name: &str, token: &str, expires: &str| {
            format!("{}expires = '{expires}'\n", entry(name, token))
        };
        let auth = open(
            &[
                expiring("gone", "a", "2026-11-22"),
                expiring("now", "b", "2026-11-23"),
                expiring("soon", "c", "2026-11-30"),
                expiring("later", "d", "2026-11-30T00:00:01Z"),
                expiring("rotated", "e", "2026-11-22"),
                expiring("rotated", "f", "2027-11-22"),
                expiring("lasting", "g", "2026-11-22"),
                entry("lasting", "h"),
            ]
            .concat(),
        );
        let (expired, soon) = auth.expect("valid").expiring(NOW_MS);
        assert_eq!(expired, ["gone (2026-11-22T00:00:00Z)", "now (2026-11-23T00:00:00Z)"]);
        assert_eq!(soon, ["soon (2026-11-30T00:00:00Z)"]);
        let names = (0..12).map(|number| number.to_string()).collect();
        assert_eq!(first(names), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, and 2 more");
    }
}
