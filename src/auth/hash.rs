//! Hashes of tokens.

use std::{fmt, hash};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The prefix of a hash in the file. It leaves room for other hash functions.
const KIND: &str = "sha256:";

/// The SHA-256 hash of a token. Tokens are random, with at least 128 bits, so an attacker cannot
/// guess one even though the hash is fast. A slow password hash would only let every client cause
/// load.
#[derive(Clone, Copy, Eq)]
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
}

/// Compares hashes in constant time.
impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl hash::Hash for TokenHash {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
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
