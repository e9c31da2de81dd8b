//! The body of `/id/{code}`: one ID.

use super::{
    asked::{Form, refuse_unsafe},
    texts::Texts,
};
use crate::{core::id::Id, server::problem::Problem};

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
