//! The body of `/id/{code}`: one ID.

use std::fmt::Write;

use super::{
    asked::{Form, refuse_unsafe},
    texts::Texts,
};
use crate::{core::id::Id, server::problem::Problem};

pub(super) fn write_one(form: Form, texts: Texts<'_>, id: Id) -> Result<String, Problem> {
    let text = texts.text(id);
    let mut body = String::with_capacity(32);
    let written = match form {
        Form::Text => writeln!(body, "{text}"),
        Form::Number => {
            refuse_unsafe(id)?;
            write!(body, r#"{{"id":{id}}}"#)
        }
        Form::String | Form::Range => write!(body, r#"{{"id":"{text}"}}"#),
    };
    written.expect("a string takes any text");
    Ok(body)
}
