//! Prints IDs, claim by claim.

use std::fmt::Write as _;

use crate::{
    cli::{failure::Failure, output},
    core::{encoding::Encoder, id::Id},
};

/// How many IDs to claim at a time; a layout with fewer is asked for fewer.
pub(super) const CLAIM: u32 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Lines,
    Json,
}

/// Prints IDs, claim by claim.
pub(super) struct Printer<'a> {
    prefix: &'a str,
    encoder: Encoder<'a>,
    /// How many IDs are still wanted.
    left: u32,
    separator: &'static str,
    between: &'static str,
    end: &'static str,
}

impl<'a> Printer<'a> {
    pub(super) fn new(count: u32, format: Format, prefix: &'a str, encoder: Encoder<'a>) -> Self {
        let (separator, between, end) = match format {
            Format::Lines => ("", "\n", "\n"),
            Format::Json => ("[\"", "\",\"", "\"]\n"),
        };
        Self { prefix, encoder, left: count, separator, between, end }
    }

    /// Prints IDs; claims at most `at_a_time` of them at once.
    pub(super) async fn print<Ids: ExactSizeIterator<Item = Id>>(
        mut self,
        at_a_time: u32,
        mut claim: impl AsyncFnMut(u32) -> Result<Ids, Failure>,
    ) -> Result<(), Failure> {
        while self.left > 0 {
            let ids = claim(self.left.min(at_a_time)).await?;
            self.left = self.left.saturating_sub(u32::try_from(ids.len()).unwrap_or(u32::MAX));
            let mut text = String::new();
            for id in ids {
                let (separator, prefix) = (self.separator, self.prefix);
                let id = self.encoder.text(id);
                write!(text, "{separator}{prefix}{id}").expect("a string takes any text");
                self.separator = self.between;
            }
            output::print(&text)?;
        }
        Ok(output::print(self.end)?)
    }
}
