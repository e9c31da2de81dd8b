//! IDs as the texts of an answer.

use std::io::Write;

use crate::core::{
    encoding::{Encoder, write_decimal},
    id::Id,
};

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

    /// Appends an ID's text.
    pub(super) fn write(self, body: &mut Vec<u8>, id: Id) {
        body.extend_from_slice(self.prefix.as_bytes());
        match self.encoder {
            None => write_decimal(body, id),
            Some(encoder) => {
                write!(body, "{}", encoder.text(id)).expect("a vector takes any bytes");
            }
        }
    }
}
