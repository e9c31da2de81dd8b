//! `/ids/{code}`: many IDs, and what it shares with `/id/{code}`.

use std::{
    convert::Infallible,
    fmt::Write,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, Uri, header},
    response::Response,
};
use hyper::body::Frame;

use crate::{
    core::{
        code::{CODE_PATTERN, is_valid_code},
        id::Id,
        issue::Run,
        layout::{Fields, Layout},
    },
    keeper::Issuer,
    server::{
        accept::prefers_text,
        params::{Params, invalid},
        problem::{Problem, ProblemCode},
        state::AppState,
    },
};

const PARAMETERS: [&str; 3] = ["n", "format", "namespace"];

/// How IDs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON strings.
    String,
    /// JSON numbers.
    Number,
    /// JSON ranges.
    Range,
    /// One ID per line.
    Text,
}

/// A checked request for IDs.
pub(super) struct Asked<'a> {
    pub(super) issuer: &'a Issuer,
    pub(super) code: String,
    pub(super) count: u32,
    pub(super) form: Form,
}

impl<'a> Asked<'a> {
    pub(super) fn read(
        state: &'a AppState,
        code: Result<Path<String>, PathRejection>,
        uri: &Uri,
        headers: &HeaderMap,
        known: &[&str],
    ) -> Result<Self, Problem> {
        let params = Params::read(uri, known)?;
        let issuer = state.issuer(params.get("namespace"))?;
        let code = read_code(code)?;
        let count = params.get("n").map_or(Ok(1), |n| read_count(n, state.http.max_batch))?;
        let many = known.contains(&"n");
        let form = read_form(params.get("format"), many, prefers_text(headers))?;
        // Known before a claim that would be thrown away: IDs only grow.
        if form == Form::Number
            && let Some(smallest) = smallest_at(issuer.layout(), state.clock.now_ms())
        {
            refuse_unsafe(smallest)?;
        }
        Ok(Self { issuer, code, count, form })
    }
}

fn read_code(code: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    let invalid = |found: &str| {
        let detail = format!("code {found} must match {CODE_PATTERN}");
        Problem::new(ProblemCode::InvalidCode, detail)
    };
    let Path(code) = code.map_err(|_| invalid("that is not UTF-8"))?;
    if is_valid_code(&code) { Ok(code) } else { Err(invalid(&format!("{code:?}"))) }
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

/// Answers `n` IDs, ascending.
pub(in crate::server) async fn next_ids(
    State(state): State<Arc<AppState>>,
    code: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asked = Asked::read(&state, code, &uri, &headers, &PARAMETERS)?;
    let run = asked.issuer.next_ids(&asked.code, asked.count).await?;
    Ok(answer(asked.form, write_run(asked.form, run)?.into()))
}

/// Checks the request and claims nothing.
pub(in crate::server) async fn head_ids(
    State(state): State<Arc<AppState>>,
    code: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Ok(head(Asked::read(&state, code, &uri, &headers, &PARAMETERS)?.form))
}

fn write_run(form: Form, run: Run) -> Result<String, Problem> {
    // 19 digits, two quotes and a comma.
    let mut body = String::with_capacity(run.len() * 22 + 16);
    let wrote = "a string takes any text";
    match form {
        Form::Text => {
            for id in run {
                writeln!(body, "{id}").expect(wrote);
            }
            return Ok(body);
        }
        Form::Range => {
            body.push_str(r#"{"ranges":["#);
            for range in run.ranges() {
                let (first, last) = (range.first, range.last);
                let (step, count) = (range.step, range.count);
                let json = format_args!(
                    r#"{{"first":"{first}","last":"{last}","step":"{step}","count":{count}}},"#
                );
                body.write_fmt(json).expect(wrote);
            }
        }
        Form::String => {
            body.push_str(r#"{"ids":["#);
            for id in run {
                write!(body, r#""{id}","#).expect(wrote);
            }
        }
        Form::Number => {
            body.push_str(r#"{"ids":["#);
            for id in run {
                refuse_unsafe(id)?;
                write!(body, "{id},").expect(wrote);
            }
        }
    }
    // A claim holds at least one ID, so a comma stands last.
    body.pop();
    body.push_str("]}");
    Ok(body)
}

pub(super) fn answer(form: Form, body: Body) -> Response {
    let mut response = Response::new(body);
    let content_type = match form {
        Form::Text => "text/plain; charset=utf-8",
        Form::String | Form::Number | Form::Range => "application/json",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(super) fn head(form: Form) -> Response {
    answer(form, Body::new(UnknownLength))
}

/// An empty body that claims no length: a HEAD answer must not say `content-length: 0`.
struct UnknownLength;

impl HttpBody for UnknownLength {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }
}
