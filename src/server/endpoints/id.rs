//! The body of `/id/{code}`: one ID.

use utoipa::ToSchema;

use super::{
    asked::{Form, refuse_unsafe},
    texts::Texts,
};
use crate::{core::id::Id, server::problem::Problem};

/// One ID.
#[derive(ToSchema)]
#[expect(dead_code, reason = "`write_one` writes it in a part of the time")]
pub(super) struct OneId {
    id: TextOrNumber,
}

/// A text, or with `format=number` a number.
#[derive(ToSchema)]
#[schema(as = Id)]
#[serde(untagged)]
#[expect(dead_code, reason = "`write_one` writes it in a part of the time")]
pub(super) enum TextOrNumber {
    Text(IdText),
    Number(IdNumber),
}

/// In the encoding that was asked for, after the prefix of its code if that has one.
#[derive(ToSchema)]
#[schema(min_length = 1, example = "249679838552547328")]
#[expect(dead_code, reason = "`write_one` writes it in a part of the time")]
pub(super) struct IdText(String);

/// Exact in JavaScript.
#[derive(ToSchema)]
#[schema(maximum = 9_007_199_254_740_991_i64)]
#[expect(dead_code, reason = "`write_one` writes it in a part of the time")]
pub(super) struct IdNumber(u64);

pub(super) fn write_one(form: Form, texts: Texts<'_>, id: Id) -> Result<Vec<u8>, Problem> {
    let [before, after] = match form {
        Form::Text => ["", "\n"],
        Form::Number => [r#"{"id":"#, "}"],
        Form::String | Form::Range => [r#"{"id":""#, r#""}"#],
    };
    if form == Form::Number {
        refuse_unsafe(id)?;
    }
    // Exactly as long as the usual text: what is spare has to be kept track of until it is sent.
    let digits = 1 + id.get().checked_ilog10().unwrap_or(0) as usize;
    let length = before.len() + texts.prefix.len() + digits + after.len();
    let mut body = Vec::with_capacity(length);
    body.extend_from_slice(before.as_bytes());
    texts.write(&mut body, id);
    body.extend_from_slice(after.as_bytes());
    Ok(body)
}
