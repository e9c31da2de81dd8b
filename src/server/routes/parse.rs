//! `/parse/{id}`: the fields of an ID.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    config::{LocatedText, WrongNamespace},
    core::{
        code::is_valid_code,
        encoding::InvalidId,
        id::Id,
        instant::format_unix_ms,
        issue::ClaimError,
        layout::{Layout, Parsed, TooLong},
        preset::NamedLayout,
        segment::{InvalidNumberText, SegmentSpec, TextForm},
    },
    keeper::NamespaceIssuer,
    server::{
        extract::{Client, InPath, Query, encoding, instant, invalid},
        openapi::{self, names},
        response::{Problem, ProblemCode as P},
        routes::ids::segment_problem,
        state::AppState,
    },
};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct ParseQuery {
    /// How the ID is written. `friendly` needs a layout whose time does not wrap, `uuid7` and
    /// `typeid` one with ticks of a millisecond.
    #[param(inline, value_type = Option<openapi::OneEncoding>)]
    encoding: Option<String>,
    /// The layout to read the ID by, instead of a namespace's: a preset, the name of another
    /// system's layout, a configured name, or a description. A description lists the fields from
    /// the most significant with their widths, `time` with the length of its tick.
    #[param(inline, value_type = Option<openapi::LayoutText>)]
    layout: Option<String>,
    /// The epoch to read `layout` with, instead of the layout's own.
    #[param(inline, value_type = Option<openapi::Instant>)]
    epoch: Option<String>,
    /// Whose ID. A prefix that is bound to a namespace needs none, and refuses another.
    #[param(inline, value_type = Option<openapi::Namespace>)]
    namespace: Option<String>,
    /// The code of a segment namespace that wrote the text by its form; then only `namespace` may
    /// be given, too.
    #[param(inline, value_type = Option<openapi::Code>)]
    code: Option<String>,
}

/// Describes the ID in the path for the API document.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "InPath reads it")]
struct IdInPath {
    /// An ID in its encoding, with the prefix of its code if that has one.
    #[param(inline, value_type = openapi::IdText)]
    id: String,
}

/// The fields of an ID.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ParsedId {
    /// In decimal.
    #[schema(pattern = "^[0-9]{1,19}$", example = "249679838552547328")]
    id: String,
    /// In 16 hexadecimal digits.
    #[schema(pattern = "^[0-9a-f]{16}$", example = "03770a7d84806000")]
    hex: String,
    /// The start of the ID's tick, RFC 3339; after the year 9999 `unix_ms:` and the number.
    #[schema(example = "2026-11-20T23:38:32.338Z")]
    timestamp: String,
    /// The start of the ID's tick, in milliseconds since 1970.
    unix_ms: i64,
    /// The timestamp as it stands in the ID, in the layout's unit and from its epoch.
    tick: u64,
    data_center: u64,
    worker_id: u64,
    /// The value of the rollback bits.
    lane: u64,
    sequence: u64,
    reserved: u64,
    /// Whether it is exact as a JavaScript number: at most 2^53 - 1.
    js_safe: bool,
    /// Only where the time wraps, so that the instant is the latest possible one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    wraps: bool,
    /// The namespace whose layout it was read by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    namespace: Option<String>,
    /// The layout that the request named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    layout: Option<String>,
    /// Only if the timestamp is in the future, or before the system issued its first IDs: the
    /// layout or its epoch is probably not that of the ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        example = "the timestamp 2036-04-10T08:44:02.112Z is in the future"
    )]
    warning: Option<String>,
}

impl ParsedId {
    /// Decodes an ID by the layout of its namespace; `now_ms` is the reader's clock.
    pub fn of_namespace(
        id: Id,
        layout: &Layout,
        namespace: &str,
        now_ms: i64,
    ) -> Result<Self, TooLong> {
        let namespace = Some(namespace.to_owned());
        let parsed = layout.parse(id, now_ms)?;
        let warning = parsed.warning(None, now_ms);
        Ok(Self { namespace, warning, ..Self::new(id, parsed) })
    }

    /// Decodes an ID by a preset, another system's layout or a described one; `now_ms` is the
    /// reader's clock.
    pub fn of_named(id: Id, layout: &NamedLayout, now_ms: i64) -> Result<Self, TooLong> {
        let parsed = layout.parse(id, now_ms)?;
        let (name, warning) = (layout.name().to_owned(), parsed.warning(layout.first(), now_ms));
        Ok(Self { layout: Some(name), warning, ..Self::new(id, parsed) })
    }

    fn new(id: Id, Parsed { fields, unix_ms, wraps }: Parsed) -> Self {
        Self {
            id: id.to_string(),
            hex: format!("{:016x}", id.get()),
            timestamp: format_unix_ms(unix_ms),
            unix_ms,
            tick: fields.tick,
            data_center: fields.data_center,
            worker_id: fields.worker,
            lane: fields.lane,
            sequence: fields.sequence,
            reserved: fields.reserved,
            js_safe: id.is_js_safe(),
            wraps,
            namespace: None,
            layout: None,
            warning: None,
        }
    }

    /// Returns the warning about its timestamp, if there is one.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }
}

/// A UUID that no ID of the layout has.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ForeignUuid {
    /// The version of the UUID (RFC 9562).
    #[schema(maximum = 15)]
    uuid_version: u8,
    /// Its instant, RFC 3339; after the year 9999 `unix_ms:` and the number. Null for versions
    /// without an instant.
    #[schema(required, example = "2022-02-22T19:22:22.000Z")]
    timestamp: Option<String>,
    /// The same in milliseconds since 1970.
    #[schema(required)]
    unix_ms: Option<i64>,
    /// Why it has no other fields.
    warning: &'static str,
}

impl ForeignUuid {
    /// Describes a UUID of this version that was made at this instant.
    pub fn new(uuid_version: u8, unix_ms: Option<i64>) -> Self {
        let warning = "not a UUID of this layout: it is not of version 7, or its instant is outside \
                       the layout's time";
        Self { uuid_version, timestamp: unix_ms.map(format_unix_ms), unix_ms, warning }
    }

    /// Returns why it has no other fields.
    pub const fn warning(&self) -> &'static str {
        self.warning
    }
}

/// The number in a text of a code.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CodeNumber {
    code: String,
    namespace: String,
    /// In decimal.
    #[schema(pattern = "^[0-9]{1,19}$", example = "17")]
    number: String,
}

impl CodeNumber {
    /// Reads the number from a text of a code. Returns `None` if the code has no form of texts.
    ///
    /// # Errors
    ///
    /// When the code has no such text.
    pub fn read(
        text: &str,
        code: &str,
        namespace: &str,
        spec: &SegmentSpec,
    ) -> Option<Result<Self, NoCodeNumber>> {
        let read = |form: TextForm| {
            let number = form.read(text)?;
            let (code, namespace) = (code.to_owned(), namespace.to_owned());
            if spec.allows(number) {
                return Ok(Self { code, namespace, number: number.to_string() });
            }
            let (text, spec) = (text.to_owned(), Box::new(*spec));
            Err(NoCodeNumber::NotAllowed { text, number, code, spec })
        };
        spec.text.map(read)
    }
}

/// Why a text is none of a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCodeNumber {
    /// It is not of the form of the code's texts.
    #[error(transparent)]
    OtherText(#[from] InvalidNumberText),
    /// The code never issues its number.
    #[error(
        "{text:?}: {number} is no number of code {code:?}: its numbers are at most {} (max) and \
         leave {} (remainder) when they are divided by {} (increment)",
        .spec.max, .spec.remainder, .spec.increment
    )]
    NotAllowed {
        /// The text.
        text: String,
        /// Its number.
        number: u64,
        /// The code.
        code: String,
        /// The settings of the code.
        spec: Box<SegmentSpec>,
    },
}

/// Returns the error of a code whose numbers have no form of texts. `hint` says what else the
/// caller can give.
pub(crate) fn no_texts(code: &str, namespace: &str, hint: &str) -> String {
    format!("code {code:?} of namespace {namespace:?} has no setting text{hint}")
}

/// An ID, a UUID or a number that was read.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ParsedText {
    /// An ID.
    Id(Box<ParsedId>),
    /// A UUID of another system.
    ForeignUuid(ForeignUuid),
    /// A number of a code.
    CodeNumber(CodeNumber),
}

/// The IDs of this namespace are plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("namespace {0:?} is in segment mode: its IDs are plain numbers, without fields or a time")]
pub struct NoFields<'a>(pub &'a str);

/// The fields of an ID
///
/// Splits an ID into its fields by the layout of a namespace, or by `layout`: a name, or a
/// description of the fields. Give only one of the two. The ID may have the prefix of its code.
/// With `code`, reads the number from a text of a segment code.
#[utoipa::path(
    get,
    path = "/parse/{id}",
    operation_id = "parse",
    params(IdInPath, ParseQuery),
    responses((status = 200, description = "The fields of an ID", body = inline(ParsedText))),
    extensions(("x-problems" = json!(names(&[PROBLEMS])))),
)]
pub(in crate::server) async fn parse(
    State(state): State<Arc<AppState>>,
    client: Client,
    InPath(text): InPath,
    Query(query): Query<ParseQuery>,
) -> Result<Response, Problem> {
    if let Some(code) = &query.code {
        return number_of(&state, &client, code, text, &query).await;
    }
    let encoding = encoding(query.encoding.as_deref())?.unwrap_or_default();
    let epoch_ms = instant("epoch", query.epoch.as_deref())?;
    if epoch_ms.is_some() && query.layout.is_none() {
        return Err(invalid("parameter epoch goes with layout"));
    }
    let find = |text: &str| {
        let named = NamedLayout::find(text, epoch_ms, &state.layouts);
        named.map_err(|error| invalid(format!("layout = {text:?}: {error}")))
    };
    let named = query.layout.as_deref().map(find).transpose()?;
    let requested = query.namespace.as_deref();
    if named.is_some() && requested.is_some() {
        return Err(invalid("parameters namespace and layout exclude each other"));
    }
    let text = text.ok_or_else(not_utf8)?;
    let may_use = |namespace: &str| client.caller.may_use(namespace);
    let located = state.codes.locate_text(&text, requested, may_use);
    // An ID that is read by a named layout need not be of any namespace, so none is checked.
    if named.is_none() {
        let own = located.as_ref().map_or_else(WrongNamespace::own, |located| located.namespace);
        client.caller.check_namespace(own, requested)?;
    }
    let LocatedText { namespace, prefix, text } = located?;
    let issuer = state.issuer(namespace)?;
    let layout = named.as_ref().map_or(issuer.layout(), NamedLayout::layout);
    encoding.check_prefix(prefix).map_err(|error| Problem::new(P::InvalidId, error.to_string()))?;
    let id = match encoding.decode(text, layout) {
        Err(InvalidId::ForeignUuid { version, unix_ms }) => {
            return client.cached_json(&ForeignUuid::new(version, unix_ms));
        }
        id => id.map_err(|error| unreadable(error).after(prefix))?,
    };
    let now_ms = state.clock.now_ms();
    let parsed = match (named, issuer.layout()) {
        (Some(layout), _) => ParsedId::of_named(id, &layout, now_ms),
        (None, Some(layout)) => ParsedId::of_namespace(id, layout, namespace, now_ms),
        (None, None) => return Err(no_fields(namespace)),
    };
    let parsed = parsed.map_err(|error| Problem::new(P::NotDecodable, error.to_string()))?;
    client.cached_json(&parsed)
}

/// Reads the number from a text of a code.
async fn number_of(
    state: &AppState,
    client: &Client,
    code: &str,
    text: Option<String>,
    query: &ParseQuery,
) -> Result<Response, Problem> {
    let others = [&query.encoding, &query.layout, &query.epoch];
    if others.into_iter().any(Option::is_some) {
        return Err(invalid("parameter code excludes encoding, layout and epoch"));
    }
    if !is_valid_code(code) {
        return Err(ClaimError::InvalidCode(code.to_owned()).into());
    }
    client.caller.check_code(code)?;
    let requested = query.namespace.as_deref();
    let located = state.codes.locate(code, requested);
    let own = located.as_ref().map_or_else(WrongNamespace::own, |located| located.namespace);
    client.caller.check_namespace(own, requested)?;
    let namespace = located?.namespace;
    let spec = match state.issuer(namespace)? {
        NamespaceIssuer::Snowflake(_) => None,
        NamespaceIssuer::Segment(issuer) => {
            let _in_flight = state.begin_claim()?;
            let learnt = issuer.learn(code).await;
            learnt.map_err(|error| segment_problem(error, namespace, code))?;
            issuer.spec(code)
        }
    };
    let text = text.ok_or_else(not_utf8)?;
    let number = spec.and_then(|spec| CodeNumber::read(&text, code, namespace, &spec));
    let Some(number) = number else {
        let hint = match requested {
            Some(_) => "",
            None => "; a managed code of another namespace needs the parameter namespace",
        };
        return Err(Problem::new(P::NotDecodable, no_texts(code, namespace, hint)));
    };
    client.cached_json(&number.map_err(|error| Problem::new(P::InvalidId, error.to_string()))?)
}

/// Returns the problem of a text that is no ID. One that is not of digits may be of a code.
fn unreadable(error: InvalidId) -> Problem {
    let may_be_of_code = matches!(error, InvalidId::BadDigit { encoding: "decimal", .. });
    let problem = Problem::from(error);
    match may_be_of_code {
        true => problem.with_hint("a text of a segment code needs the parameter code"),
        false => problem,
    }
}

fn not_utf8() -> Problem {
    Problem::new(P::InvalidId, "the ID must be UTF-8")
}

const PROBLEMS: &[P] = &[
    P::InvalidId,
    P::InvalidParameter,
    P::InvalidCode,
    P::UnknownNamespace,
    P::NotDecodable,
    P::LeaseUnavailable,
    P::StoreUnavailable,
];

/// Returns the problem of a request for fields or instants of a segment namespace, which has none.
pub(super) fn no_fields(namespace: &str) -> Problem {
    Problem::new(P::NotDecodable, NoFields(namespace).to_string())
}
