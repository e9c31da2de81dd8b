//! The JSON body of a request that raises a code.

use serde::Deserialize;
use utoipa::ToSchema;

use super::settings::Number;
use crate::{
    core::segment::SegmentSpec,
    server::{
        extract::{given, invalid},
        response::Problem,
    },
};

/// How far to raise the next number: `by` or `to`, one of the two.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::server) struct RaiseBody {
    /// The count of numbers to skip.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = u64, required = false, minimum = 1, example = 100_000)]
    by: Option<Number>,
    /// The least next number.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = u64, required = false, minimum = 0)]
    to: Option<Number>,
}

/// How far a request raises a code.
pub(super) enum Amount {
    By(u64),
    To(u64),
}

impl RaiseBody {
    pub(super) fn amount(self) -> Result<Amount, Problem> {
        let end = SegmentSpec::LARGEST_NUMBER;
        match (self.by, self.to) {
            (Some(Number(by)), None) if (1..=end).contains(&by) => Ok(Amount::By(by)),
            (None, Some(Number(to))) if to <= end => Ok(Amount::To(to)),
            (Some(Number(by)), None) => Err(invalid(format!("by = {by}: must be 1 to {end}"))),
            (None, Some(Number(to))) => Err(invalid(format!("to = {to}: must be 0 to {end}"))),
            _ => Err(invalid("the body: must have one of by and to")),
        }
    }
}
