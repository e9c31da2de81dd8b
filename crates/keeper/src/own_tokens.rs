//! The tokens that a process set on the row that it holds.

use std::collections::VecDeque;

use raindrop_core::lease::Token;

/// How many are remembered. A fail-over loses the writes of a few seconds, and a lease is renewed
/// more often than that only while much is issued from it.
const REMEMBERED: usize = 64;

/// The tokens of the last writes of a row that were acknowledged to this process, in one unbroken
/// tenure: if the row has one of them, no write of another process stood there before that.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnTokens {
    own: VecDeque<Token>,
    /// The token that the acquisition replaced.
    before: Option<Token>,
}

impl OwnTokens {
    /// Begins with the acquisition of a row that had this token.
    pub(super) fn after(before: Option<Token>) -> Self {
        Self { own: VecDeque::new(), before }
    }

    pub(super) fn add(&mut self, token: Token) {
        if self.own.len() == REMEMBERED {
            self.own.pop_front();
        }
        self.own.push_back(token);
    }

    /// Whether an acknowledged write replaced the one with this token.
    pub(super) fn has_replaced(&self, token: Token) -> bool {
        let mut own = self.own.iter().rev().skip(1);
        self.before == Some(token) || own.any(|replaced| *replaced == token)
    }

    pub(super) fn contains(&self, token: Token) -> bool {
        self.own.contains(&token)
    }
}
