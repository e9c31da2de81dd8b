//! IDs as the texts of an answer.

use std::fmt;

use crate::core::{encoding::Encoder, id::Id};

/// Writes IDs as texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts<'a> {
    /// What stands before each.
    pub(super) prefix: &'a str,
    /// None writes plain decimal.
    pub(super) encoder: Option<Encoder<'a>>,
}

impl<'a> Texts<'a> {
    pub(super) const fn new(prefix: &'a str, encoder: Option<Encoder<'a>>) -> Self {
        Self { prefix, encoder }
    }

    pub(super) fn text(self, id: Id) -> impl fmt::Display + use<'a> {
        Text { texts: self, id }
    }
}

struct Text<'a> {
    texts: Texts<'a>,
    id: Id,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Texts { prefix, encoder } = self.texts;
        if !prefix.is_empty() {
            f.write_str(prefix)?;
        }
        match encoder {
            None => self.id.fmt(f),
            Some(encoder) => encoder.text(self.id).fmt(f),
        }
    }
}
