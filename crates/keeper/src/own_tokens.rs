//! The tokens that a process set on the row that it holds.

use std::collections::VecDeque;

use raindrop_core::lease::Token;

/// How many are remembered. A fail-over loses the writes of a few seconds, and a lease is renewed
/// more often than that only while much is issued from it.
const REMEMBERED: usize = 64;

/// The tokens of the last writes of a row that were acknowledged to this process, in one unbroken
/// tenure: a row that has one of them went back, however short the time.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnTokens(VecDeque<Token>);

impl OwnTokens {
    pub(super) fn add(&mut self, token: Token) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(token);
    }

    pub(super) fn contains(&self, token: Token) -> bool {
        self.0.contains(&token)
    }
}
