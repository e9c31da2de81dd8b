//! Known tokens: hashes, and what their bearers may use.

use std::{fmt, sync::Arc};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::core::code::is_valid_code;

/// What stands before a hash in the file, so that another kind may come one day.
const KIND: &str = "sha256:";

/// The hash of a token. Tokens are random, with at least 128 bits: nobody finds one by trying,
/// however fast a hash is, and a slow one would only be a load that anyone may cause.
#[derive(Clone, Copy)]
pub(crate) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(crate) fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Reads `sha256:` and 64 hexadecimal digits.
    pub(super) fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(KIND)?;
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (index, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self(hash))
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KIND)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(***)")
    }
}

/// What the bearer of a token may use.
#[derive(Debug)]
pub(super) struct Rights {
    /// The token's name.
    pub(super) name: String,
    /// None means every one.
    pub(super) namespaces: Option<Vec<String>>,
    /// Codes, and beginnings of codes with a `*` behind; none means every one.
    pub(super) codes: Option<Vec<String>>,
}

impl Rights {
    pub(super) fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|names| names.iter().any(|allowed| allowed == name))
    }

    pub(super) fn has_code(&self, code: &str) -> bool {
        let fits = |allowed: &String| match allowed.strip_suffix('*') {
            Some(beginning) => code.starts_with(beginning),
            None => code == allowed,
        };
        self.codes.as_ref().is_none_or(|codes| codes.iter().any(fits))
    }
}

/// Whether the text is a code, or a beginning of codes with a `*` behind.
pub(crate) fn is_code_or_beginning(text: &str) -> bool {
    is_valid_code(text.strip_suffix('*').unwrap_or(text))
}

/// A token that is known.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) hash: TokenHash,
    pub(super) rights: Arc<Rights>,
}

/// Every token that is known.
#[derive(Debug)]
pub(super) struct Tokens(pub(super) Vec<Token>);

impl Tokens {
    /// What the bearer of this token may use, if it is known.
    ///
    /// It is compared with every token, whether one fits or not, each time in constant time: how
    /// long that takes tells nothing of the others.
    pub(super) fn find(&self, token: &[u8]) -> Option<Arc<Rights>> {
        let given = TokenHash::of(token);
        let mut found = None;
        for token in &self.0 {
            if token.hash.is(&given) {
                found = Some(&token.rights);
            }
        }
        found.cloned()
    }
}
