//! The spelling of environment variables.
//!
//! A dot in a key becomes two underscores, or one where that is unambiguous. Every other variable
//! that resembles a key is an error, because ignoring it is dangerous. If a node ignored a misspelt
//! `RAINDROP_STORE_URL`, it would lease from a local file and repeat the IDs of other nodes. If it
//! ignored `RAINDROP_AUTH_TOKEN_FILE`, every client could use it. Variables that Kubernetes and
//! Docker set for a service named raindrop, such as `RAINDROP_PORT`, resemble no key.

use super::keys::{KEYS, Key, LAYOUT_FIELDS, LAYOUTS, NAMESPACES, variable};

/// The variable that names the configuration file.
pub(super) const FILE_VARIABLE: &str = "RAINDROP_CONFIG";

/// The prefix of Raindrop's variables, in upper or lower case.
pub(super) const PREFIX: &str = "RAINDROP_";

/// Returns the rest of a name that begins with this prefix, in any case.
pub(super) fn without_prefix<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = name.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Returns the right spelling of a variable that differs from a known one in underscores or case
/// only.
pub(super) fn corrected(name: &str) -> Option<String> {
    let words = without_prefix(name, PREFIX)?.split('_').filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_lowercase).collect();
    let known = match &words[..] {
        [word] if word == "config" => FILE_VARIABLE.to_owned(),
        // `namespaces.my_web.lease.ttl` for `namespaces`, `my`, `web`, `lease` and `ttl`.
        [word, rest @ ..] if word == NAMESPACES => (1..rest.len()).find_map(|at| {
            let (namespace, key) = (rest[..at].join("_"), key_of(&rest[at..])?);
            Some(variable(&format!("{NAMESPACES}.{namespace}.{}", key.name)))
        })?,
        // Keys of `layout` as well, which are then refused by name.
        [word, rest @ ..] if word == LAYOUTS && !is_link(rest) => {
            (1..rest.len()).rev().find_map(|at| {
                let (layout, key) = (rest[..at].join("_"), rest[at..].join("_"));
                let is_key = LAYOUT_FIELDS.contains(&&*key)
                    || Key::by_name(&format!("layout.{key}")).is_some();
                is_key.then(|| variable(&format!("{LAYOUTS}.{layout}.{key}")))
            })?
        }
        words => variable(key_of(words)?.name),
    };
    (known != name).then_some(known)
}

/// Returns whether Kubernetes or Docker sets a variable with these words: for a named port, or from
/// the environment of a linked container.
fn is_link(words: &[String]) -> bool {
    words.contains(&"env".to_owned()) || words.windows(2).any(|two| two == ["service", "port"])
}

/// Returns whether a variable is the short spelling of the right one. Names of namespaces have
/// underscores themselves.
pub(super) fn is_short(name: &str, right: &str) -> bool {
    let names_namespace = right.starts_with(&variable(&format!("{NAMESPACES}.")));
    !names_namespace && name == right.replace("__", "_")
}

/// Returns whether a variable is the one of the token file, or may be meant as such.
/// `RAINDROP_TOKEN` may be the token of a client, so it is not.
pub(super) fn resembles_tokens_file(name: &str) -> bool {
    let Some(rest) = without_prefix(name, PREFIX) else { return false };
    let letters: String = rest.to_lowercase().split('_').collect();
    // Kubernetes and Docker set these for a service with such a name.
    let is_link = ["service", "port", "env"].iter().any(|word| letters.contains(word));
    let parts = ["auth", "token", "file"].iter().filter(|part| letters.contains(**part)).count();
    !is_link && (parts >= 2 || letters == "tokens")
}

/// Returns the key whose name consists of these words.
fn key_of(words: &[String]) -> Option<&'static Key> {
    let letters = words.concat();
    KEYS.iter().find(|key| key.name.chars().filter(|c| !".-_".contains(*c)).eq(letters.chars()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_variables_are_corrected() {
        for (name, right) in [
            ("RAINDROP_STORE_URL", "RAINDROP__STORE__URL"),
            ("RAINDROP__STORE_URL", "RAINDROP__STORE__URL"),
            ("RAINDROP_STORE__URL", "RAINDROP__STORE__URL"),
            ("RAINDROP___STORE__URL_", "RAINDROP__STORE__URL"),
            ("raindrop__store__url", "RAINDROP__STORE__URL"),
            ("RAINDROP__Store__Url", "RAINDROP__STORE__URL"),
            ("Raindrop_StoreUrl", "RAINDROP__STORE__URL"),
            ("RAINDROP_STORE_URL_FILE", "RAINDROP__STORE__URL_FILE"),
            ("RAINDROP__STORE__URL__FILE", "RAINDROP__STORE__URL_FILE"),
            ("RAINDROP_STORE_PASSWORD_FILE", "RAINDROP__STORE__PASSWORD_FILE"),
            ("RAINDROP_AUTH_TOKENS_FILE", "RAINDROP__AUTH__TOKENS_FILE"),
            ("RAINDROP_LAYOUT_TIME_UNIT", "RAINDROP__LAYOUT__TIME_UNIT"),
            ("RAINDROP__LAYOUT__TIME__UNIT", "RAINDROP__LAYOUT__TIME_UNIT"),
            ("RAINDROP_WORKER_ID", "RAINDROP__WORKER__ID"),
            ("RAINDROP_MODE", "RAINDROP__MODE"),
            ("RAINDROP_HTTP_LISTEN", "RAINDROP__HTTP__LISTEN"),
            ("RAINDROP_NAMESPACES_WEB_LEASE_TTL", "RAINDROP__NAMESPACES__WEB__LEASE__TTL"),
            ("RAINDROP__NAMESPACES__web__MODE", "RAINDROP__NAMESPACES__WEB__MODE"),
            (
                "RAINDROP__NAMESPACES__MY__WEB__LAYOUT__PRESET",
                "RAINDROP__NAMESPACES__MY_WEB__LAYOUT__PRESET",
            ),
            ("RAINDROP_LAYOUTS_MY_OLD_EPOCH", "RAINDROP__LAYOUTS__MY_OLD__EPOCH"),
            ("RAINDROP_LAYOUTS_OLD_LAYOUT", "RAINDROP__LAYOUTS__OLD__LAYOUT"),
            ("RAINDROP_LAYOUTS_OLD_TIME_UNIT", "RAINDROP__LAYOUTS__OLD__TIME_UNIT"),
            ("raindrop_config", "RAINDROP_CONFIG"),
            ("RAINDROP__CONFIG", "RAINDROP_CONFIG"),
        ] {
            assert_eq!(corrected(name).as_deref(), Some(right), "{name}");
        }
    }

    #[test]
    fn every_key_has_one_spelling() {
        for key in KEYS {
            let namespaced = variable(&format!("{NAMESPACES}.a_b.{}", key.name));
            for right in [variable(key.name), namespaced] {
                assert_eq!(corrected(&right), None, "{right}");
                let collapsed = right.replace("__", "_");
                assert_eq!(corrected(&collapsed), Some(right));
            }
        }
        for right in ["RAINDROP__LAYOUTS__MY_OLD__EPOCH", "RAINDROP__LAYOUTS__TIME_UNIT__LAYOUT"] {
            assert_eq!(corrected(right), None, "{right}");
        }
        assert_eq!(corrected(FILE_VARIABLE), None);
    }

    #[test]
    fn short_spelling_has_one_underscore_for_each_dot() {
        let right = "RAINDROP__STORE__URL_FILE";
        assert!(is_short("RAINDROP_STORE_URL_FILE", right));
        for other in ["RAINDROP_STORE__URL_FILE", "raindrop_store_url_file", right] {
            assert!(!is_short(other, right), "{other}");
        }
        let namespaced = "RAINDROP__NAMESPACES__A__LEASE__TTL";
        assert!(!is_short("RAINDROP_NAMESPACES_A_LEASE_TTL", namespaced));
    }

    #[test]
    fn variables_that_may_be_meant_for_the_token_file_are_noticed() {
        for name in [
            "RAINDROP__AUTH__TOKENS_FILE",
            "RAINDROP_AUTH__TOKENS_FILE",
            "RAINDROP_AUTH_TOKENS_FILE",
            "raindrop_auth_tokens_file",
            "RAINDROP_AUTH_TOKEN_FILE",
            "RAINDROP_AUTH_TOKENS",
            "RAINDROP_AUTH_FILE",
            "RAINDROP_AHTU_TOKENS_FILE",
            "RAINDROP_AUTH_TOKNES_FILE",
            "RAINDROP_TOKENS_FILE",
            "RAINDROP_TOKENS",
            "RAINDROP__TOKEN_FILE",
            "RAINDROP__NAMESPACES__WEB__AUTH__TOKENS_FILE",
        ] {
            assert!(resembles_tokens_file(name), "{name}");
        }
        for name in [
            "RAINDROP_TOKEN",
            "RAINDROP_AUTH_TOKENS_SERVICE_HOST",
            "RAINDROP_AUTH_TOKENS_PORT_8080_TCP",
            "RAINDROP_AUTH_TOKENS_ENV_A",
            "RAINDROP__STORE__URL_FILE",
            "AUTH_TOKENS_FILE",
        ] {
            assert!(!resembles_tokens_file(name), "{name}");
        }
    }

    #[test]
    fn foreign_variables_are_ignored() {
        for name in [
            // Kubernetes and Docker links, of services named raindrop, raindrop-http and so on.
            "RAINDROP_PORT",
            "RAINDROP_PORT_8080_TCP",
            "RAINDROP_PORT_8080_TCP_ADDR",
            "RAINDROP_PORT_8080_TCP_PORT",
            "RAINDROP_PORT_8080_TCP_PROTO",
            "RAINDROP_SERVICE_HOST",
            "RAINDROP_SERVICE_PORT",
            "RAINDROP_SERVICE_PORT_HTTP",
            "RAINDROP_HTTP_PORT",
            "RAINDROP_HTTP_SERVICE_PORT_ADMIN",
            "RAINDROP_STORE_SERVICE_HOST",
            "RAINDROP_STORE_PORT_3306_TCP_ADDR",
            "RAINDROP_CONFIG_SERVICE_HOST",
            "RAINDROP_NAMESPACES_SERVICE_PORT",
            "RAINDROP_LAYOUTS_SERVICE_HOST",
            "RAINDROP_LAYOUTS_OLD_SERVICE_PORT_ORDER",
            "RAINDROP_LAYOUTS_SERVICE_PORT_HTTP_ORDER",
            "RAINDROP_LAYOUTS_OLD_SERVICE_PORT_GRPC_EPOCH",
            "RAINDROP_LAYOUTS_ENV_EPOCH",
            "RAINDROP_LAYOUTS_OLD_ENV_ORDER",
            "RAINDROP_LAYOUTS_PORT_8080_TCP_ADDR",
            "RAINDROP_LAYOUTS_EPOCH",
            "RAINDROP_NAME",
            "RAINDROP_ENV_RAINDROP__STORE__URL",
            "RAINDROP_STORE_ENV_URL",
            // Anything else.
            "RAINDROP_MODEL",
            "RAINDROP_STORE",
            "RAINDROP__STORE__PORT",
            "RAINDROP_",
            "RAINDROP",
            "RAINDROPS_STORE_URL",
            "_RAINDROP__STORE__URL",
            "MY_RAINDROP_STORE_URL",
            "STORE_URL",
            "RAINDROPÉ_STORE_URL",
            "",
        ] {
            assert_eq!(corrected(name), None, "{name}");
        }
    }
}
