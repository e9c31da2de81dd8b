//! Fencing tokens of rows and records.

use std::{fmt, str::FromStr};

/// A fencing token: 128 random bits. Every write of a row sets a fresh one.
///
/// A token is never derived from the one before. With a counter, two processes that start from the
/// same row would arrive at the same "new" token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(u128);

/// A text that is not a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is 32 lower-case hexadecimal digits")]
pub struct InvalidToken;

impl Token {
    /// The token of a segment code from which no process has reserved, and the epoch of a row that
    /// was never written. No write sets it.
    pub const UNUSED: Self = Self(0);

    /// Returns the bits.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Returns this token plus `offset`, wrapping around.
    #[doc(hidden)]
    pub const fn plus(self, offset: u64) -> Self {
        Self(self.0.wrapping_add(offset as u128))
    }

    /// Creates a token of these bits, which must be random.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(InvalidToken);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| InvalidToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_written_and_read_exactly() {
        for bits in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef] {
            let token = Token::from_bits(bits);
            assert_eq!(token.bits(), bits);
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        for text in ["", "0", &"0".repeat(31), &"F".repeat(32), &"0".repeat(33), &"+".repeat(32)] {
            assert_eq!(text.parse::<Token>(), Err(InvalidToken), "{text:?}");
        }
    }
}
