//! The body of `/ids/{code}`: many IDs.

use std::{io::Write, vec};

use utoipa::ToSchema;

use super::{
    asked::{Form, refuse_unsafe},
    id::TextOrNumber,
    texts::Texts,
};
use crate::{
    core::{
        encoding::write_decimal_range,
        id::Id,
        issue::{IdRange, Run},
        segment::Numbers,
    },
    server::problem::Problem,
};

/// IDs, or ranges of them.
#[derive(ToSchema)]
#[schema(as = Ids)]
#[serde(untagged)]
#[expect(dead_code, reason = "`write_batch` writes it in a part of the time")]
pub(super) enum ManyIds {
    /// In ascending order.
    Ids { ids: Vec<TextOrNumber> },
    /// With `format=range`.
    Ranges { ranges: Vec<Range> },
}

/// IDs at equal distances.
#[derive(ToSchema)]
#[expect(dead_code, reason = "`write_batch` writes it in a part of the time")]
pub(super) struct Range {
    #[schema(pattern = "^[0-9]{1,19}$", example = "249679838552547328")]
    first: String,
    #[schema(pattern = "^[0-9]{1,19}$", example = "249679838552551423")]
    last: String,
    /// From each ID to the next.
    #[schema(pattern = "^[0-9]{1,19}$", example = "1")]
    step: String,
    /// How many there are.
    #[schema(minimum = 1)]
    count: u64,
}

/// IDs of one claim, of either mode.
pub(super) trait Batch: ExactSizeIterator<Item = Id> {
    fn into_ranges(self) -> impl Iterator<Item = IdRange>;
}

impl Batch for Run {
    fn into_ranges(self) -> impl Iterator<Item = IdRange> {
        self.ranges()
    }
}

impl Batch for Numbers {
    fn into_ranges(self) -> impl Iterator<Item = IdRange> {
        self.ranges()
    }
}

/// IDs for a past time: neighbours of one tick.
impl Batch for vec::IntoIter<Id> {
    fn into_ranges(self) -> impl Iterator<Item = IdRange> {
        let ids = self.as_slice();
        let step = ids.first().zip(ids.get(1)).map_or(1, |(one, next)| next.get() - one.get());
        debug_assert!(ids.windows(2).all(|pair| pair[1].get() - pair[0].get() == step));
        let range = ids.first().zip(ids.last()).map(|(first, last)| IdRange {
            first: *first,
            last: *last,
            step,
            count: ids.len() as u64,
        });
        range.into_iter()
    }
}

pub(super) fn write_batch(
    form: Form,
    texts: Texts<'_>,
    ids: impl Batch,
) -> Result<Vec<u8>, Problem> {
    // 19 digits, two quotes and a comma.
    let mut body = Vec::with_capacity(ids.len() * (22 + texts.prefix.len()) + 16);
    match form {
        Form::Text => {
            write_texts(&mut body, texts, ids, "", "\n");
            return Ok(body);
        }
        Form::Range => {
            body.extend_from_slice(br#"{"ranges":["#);
            for range in ids.into_ranges() {
                let (first, last) = (range.first, range.last);
                let (step, count) = (range.step, range.count);
                let json = format_args!(
                    r#"{{"first":"{first}","last":"{last}","step":"{step}","count":{count}}},"#
                );
                body.write_fmt(json).expect("a vector takes any bytes");
            }
        }
        Form::String => {
            body.extend_from_slice(br#"{"ids":["#);
            write_texts(&mut body, texts, ids, "\"", "\",");
        }
        Form::Number => {
            body.extend_from_slice(br#"{"ids":["#);
            for range in ids.into_ranges() {
                refuse_unsafe(range.last)?;
                write_decimal_range(&mut body, &range, "", ",");
            }
        }
    }
    // A claim holds at least one ID, so a comma stands last.
    body.pop();
    body.extend_from_slice(b"]}");
    Ok(body)
}

/// Writes the text of each ID between `before` and `after`.
fn write_texts(body: &mut Vec<u8>, texts: Texts<'_>, ids: impl Batch, before: &str, after: &str) {
    if texts.encoder.is_some() {
        for id in ids {
            body.extend_from_slice(before.as_bytes());
            texts.write(body, id);
            body.extend_from_slice(after.as_bytes());
        }
    } else {
        let before = [before, texts.prefix].concat();
        for range in ids.into_ranges() {
            write_decimal_range(body, &range, &before, after);
        }
    }
}
