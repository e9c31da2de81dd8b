//! Rows and their fencing tokens.

use std::{fmt, str::FromStr, time::Duration};

use super::{HighWaterMarks, History, planted};
use crate::layout::Layout;

/// A row as one statement read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The worker id.
    pub worker: u64,
    /// The token of the last write.
    pub token: Token,
    /// A label of the process that wrote the row last: for people and as a preference, never an
    /// identity.
    pub holder: String,
    /// The lane that the last writer issued on.
    pub lane: usize,
    /// The mark of each lane.
    pub marks: HighWaterMarks,
    /// Whether the row was released, or has expired by the store's clock.
    pub free: bool,
    /// The record's epoch when the row was last written; [`Token::UNUSED`] if it never was.
    pub epoch: Token,
    /// The store's clock at the last write, in Unix ms; 0 if the row was never written.
    pub heartbeat_ms: i64,
    /// When the row expires by the store's clock, in Unix ms.
    pub expires_ms: i64,
}

impl Row {
    /// Returns whether no process has written the row since it was created. Every write sets the
    /// heartbeat.
    pub const fn was_never_written(&self) -> bool {
        self.heartbeat_ms == 0
    }

    /// Returns the marks with which another process or an operator releases the row at `store_ms`,
    /// the store's clock in Unix ms. The row must have the lanes of the layout.
    ///
    /// If the row has not expired, the mark of the lane in use is raised beyond everything that the
    /// holder can have leased. The store may fail over and lose both the release and the next lease
    /// of the row; then the holder may continue its own lease. An expired row keeps its marks: a
    /// process that takes it starts there in any case.
    pub fn marks_when_released(
        &self,
        layout: &Layout,
        history: &History,
        store_ms: i64,
    ) -> HighWaterMarks {
        let marks = history.marks(layout, self.epoch, &self.marks);
        if planted::keeps_marks(self.free) {
            return marks;
        }
        let beyond = history.beyond(layout, store_ms).max(marks[self.lane]);
        marks.with(self.lane, beyond)
    }
}

/// The values that a write of a row sets. Every write sets every column, so the statement reads
/// none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowWrite {
    /// The fresh token.
    pub token: Token,
    /// The epoch that the namespace's record must have; otherwise the store refuses the write.
    pub epoch: Token,
    /// The writer's label.
    pub holder: String,
    /// The lane that the writer issues on.
    pub lane: usize,
    /// The mark of each lane.
    pub marks: HighWaterMarks,
    /// When other processes may take the row.
    pub expiry: RowExpiry,
}

/// When other processes may take a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowExpiry {
    /// At once.
    Released,
    /// After this time on the store's clock, unless the holder renews the row.
    After(Duration),
}

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
