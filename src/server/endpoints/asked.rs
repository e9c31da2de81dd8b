//! What a request for IDs asks for.

use axum::http::request::Parts;

use super::{past::Past, texts::Texts};
use crate::{
    config::WrongNamespace,
    core::{
        code::{CODE_PATTERN, is_valid_code},
        encoding::{Encoder, Encoding},
        id::Id,
        layout::{Fields, Layout},
    },
    server::{
        accept::prefers_text,
        auth::Caller,
        issuer::NamespaceIssuer,
        params::{Params, invalid},
        problem::{Problem, ProblemCode},
        state::AppState,
    },
};

/// How IDs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Form {
    /// JSON strings.
    String,
    /// JSON numbers.
    Number,
    /// JSON ranges.
    Range,
    /// One ID per line.
    Text,
}

/// A checked request to `/id`, or for `MANY` IDs to `/ids`. Reading it claims nothing.
#[derive(Debug)]
pub(in crate::server) struct Asked<'a, const MANY: bool> {
    pub(super) issuer: &'a NamespaceIssuer,
    pub(super) code: &'a str,
    pub(super) count: u32,
    pub(super) form: Form,
    pub(super) texts: Texts<'a>,
    /// The past instant that the IDs are for.
    pub(super) past: Option<Past>,
}

impl<'a, const MANY: bool> Asked<'a, MANY> {
    pub(super) const PARAMETERS: &'static [&'static str] = match MANY {
        true => &["n", "format", "encoding", "padded", "namespace", "at"],
        false => &["format", "encoding", "padded", "namespace", "at"],
    };
    pub(super) const FORMATS: &'static [&'static str] =
        if MANY { &["string", "number", "range"] } else { &["string", "number"] };

    /// Checks what is asked for: `code` is that of the path, decoded.
    pub(in crate::server) fn read(
        code: &'a str,
        head: &Parts,
        caller: &Caller,
        state: &'a AppState,
    ) -> Result<Self, Problem> {
        if !is_valid_code(code) {
            return Err(invalid_code(&format!("{code:?}")));
        }
        let params = Params::read(&head.uri, Self::PARAMETERS)?;
        caller.check_code(code, state)?;
        let asked = params.get("namespace");
        let located = state.codes.locate(code, asked);
        let own = located.as_ref().map_or_else(WrongNamespace::own, |(namespace, _)| namespace);
        caller.check_namespace(own, asked, state)?;
        let (namespace, prefix) = located?;
        let issuer = state.issuer(namespace)?;
        let count = params.get("n").map_or(Ok(1), |n| read_count(n, state.http.max_batch))?;
        let form = read_form(params.get("format"), MANY, prefers_text(&head.headers))?;
        let encoding = read_encoding(params.get("encoding"))?;
        let is_padded = read_boolean("padded", params.get("padded"))?;
        let encoder = (encoding != Encoding::Decimal || is_padded)
            .then(|| Encoder::new(encoding, is_padded, issuer.layout()))
            .transpose()
            .map_err(|error| invalid(error.to_string()))?;
        if let Some(format @ ("number" | "range")) = params.get("format") {
            let because = match (prefix, encoder) {
                (Some(prefix), _) => format!("for code {code:?}, whose IDs begin with {prefix:?}"),
                (None, Some(_)) => "with encoding or padded, which write texts".into(),
                (None, None) => String::new(),
            };
            if !because.is_empty() {
                return Err(invalid(format!("format = {format:?}: must be string {because}")));
            }
        }
        let read_past = |at| Past::read(at, &head.method, state, issuer);
        let past = params.get("at").map(read_past).transpose()?;
        let instant_ms = || past.as_ref().map_or_else(|| state.clock.now_ms(), |past| past.at_ms);
        // Known before a claim that would be thrown away: IDs only grow.
        if form == Form::Number {
            let at_least = match issuer {
                NamespaceIssuer::Snowflake(issuer) => smallest_at(issuer.layout(), instant_ms()),
                NamespaceIssuer::Segment(issuer) => issuer.last_at_least(code, count),
            };
            at_least.map_or(Ok(()), refuse_unsafe)?;
        }
        let texts = Texts::new(prefix.map(|prefix| &**prefix).unwrap_or_default(), encoder);
        Ok(Self { issuer, code, count, form, texts, past })
    }
}

pub(super) fn invalid_code(found: &str) -> Problem {
    let detail = format!("code {found} must match {CODE_PATTERN}");
    Problem::new(ProblemCode::InvalidCode, detail)
}

fn read_count(text: &str, max_batch: u32) -> Result<u32, Problem> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = text.parse().ok().filter(|count| digits_only && (1..=max_batch).contains(count));
    count.ok_or_else(|| {
        let detail = format!("n = {text:?}: must be 1 to {max_batch}");
        Problem::new(ProblemCode::InvalidCount, detail)
    })
}

fn read_form(format: Option<&str>, many: bool, text: bool) -> Result<Form, Problem> {
    match format {
        Some("range") if many && text => {
            Err(invalid("format = \"range\": must be left out with Accept: text/plain"))
        }
        Some("range") if many => Ok(Form::Range),
        None | Some("string" | "number") if text => Ok(Form::Text),
        None | Some("string") => Ok(Form::String),
        Some("number") => Ok(Form::Number),
        Some(other) => {
            let allowed = if many { "string, number or range" } else { "string or number" };
            Err(invalid(format!("format = {other:?}: must be {allowed}")))
        }
    }
}

/// Reads the encoding of a request; decimal when none is named.
pub(super) fn read_encoding(name: Option<&str>) -> Result<Encoding, Problem> {
    let Some(name) = name else { return Ok(Encoding::default()) };
    Encoding::by_name(name).ok_or_else(|| {
        let names = Encoding::ALL.map(Encoding::name).join(", ");
        invalid(format!("encoding = {name:?}: must be one of {names}"))
    })
}

fn read_boolean(name: &str, value: Option<&str>) -> Result<bool, Problem> {
    match value {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(invalid(format!("{name} = {other:?}: must be true or false"))),
    }
}

/// The smallest ID that can be issued at this instant.
fn smallest_at(layout: &Layout, now_ms: i64) -> Option<Id> {
    let tick = layout.tick_in_range(now_ms)?;
    let sequence = layout.min_sequence();
    let fields = Fields { tick, data_center: 0, worker: 0, lane: 0, sequence, reserved: 0 };
    layout.compose(&fields).ok()
}

pub(super) fn refuse_unsafe(id: Id) -> Result<(), Problem> {
    if id.is_js_safe() {
        return Ok(());
    }
    let detail = format!(
        "IDs are above {} now, so JSON numbers would lose digits; ask for format=string",
        Id::MAX_JS_SAFE
    );
    Err(Problem::new(ProblemCode::UnsafeNumber, detail))
}
