//! Reads and checks a request for IDs.

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    http::{HeaderValue, Method, Uri, request::Parts},
};
use utoipa::IntoParams;

use super::{
    keyed::key_of,
    writer::{BodyFormat, Texts},
};
use crate::{
    config::{HttpConfig, LocatedCode, WrongNamespace},
    core::{
        code::{CODE_PATTERN, is_valid_code},
        encoding::{Encoder, Encoding},
        id::Id,
        issue::Count,
        layout::{Fields, Layout},
        segment::TextForm,
    },
    keeper::{Backfill, IdempotencyKey, NamespaceIssuer},
    server::{
        extract::{Client, InPath, encoding, instant, invalid, parameters, parse},
        openapi,
        request_log::id_of_client,
        response::{Problem, ProblemCode},
        routes::content_negotiation::prefers_text,
        state::AppState,
    },
};

#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct IdsQuery {
    #[param(ignore)]
    n: Option<String>,
    #[param(ignore)]
    up_to: Option<String>,
    #[param(ignore)]
    format: Option<String>,
    /// How IDs are written; by default as the code is configured, else in decimal. `friendly` needs
    /// a layout whose time does not wrap, `uuid7` and `typeid` one with ticks of a millisecond.
    /// Texts in `base62`, `base62-sorted` and `base64url` may differ only in case.
    #[param(inline, value_type = Option<openapi::EncodingOfCode>)]
    encoding: Option<String>,
    /// Texts of equal length that sort as their IDs: with decimal, hex, base32, base36 and
    /// base62-sorted alone.
    #[param(value_type = Option<bool>, default = false)]
    padded: Option<String>,
    /// Whose IDs. A code or prefix that is bound to a namespace needs none, and refuses another.
    #[param(inline, value_type = Option<openapi::Namespace>)]
    namespace: Option<String>,
    #[param(ignore)]
    at: Option<String>,
}

impl IdsQuery {
    fn read(uri: &Uri) -> Result<Self, Problem> {
        // Most requests have none, so there is nothing to read.
        let Some(query) = uri.query() else { return Ok(Self::default()) };
        let names = ["n", "up_to", "format", "encoding", "padded", "namespace", "at"];
        let [n, up_to, format, encoding, padded, namespace, at] = parameters(query, names)?;
        Ok(Self { n, up_to, format, encoding, padded, namespace, at })
    }

    /// Refuses what contradicts a strict code. Browsers and proxies may repeat a GET, and a client that
    /// leases ranges issues them later.
    fn refuse_of_strict(&self, method: &Method, code: &str) -> Result<(), Problem> {
        if method != Method::POST {
            return Err(invalid(format!("code {code:?} is strict: requires POST, not {method}")));
        }
        let format = self.format.as_deref().filter(|format| *format == "range");
        for (name, value) in [("format", format), ("up_to", self.up_to.as_deref())] {
            if let Some(value) = value {
                return Err(invalid(format!(
                    "{name} = {value:?}: must be left out for code {code:?}, which is strict: ask \
                     for one ID, or for n of them"
                )));
            }
        }
        Ok(())
    }

    /// Refuses what contradicts the form of the code's texts. A client that leases ranges must not
    /// issue numbers without it.
    fn refuse_beside(&self, form: &TextForm, code: &str) -> Result<(), Problem> {
        let format = self.format.as_deref().filter(|format| *format != "string");
        for (name, value) in [
            ("format", format),
            ("up_to", self.up_to.as_deref()),
            ("encoding", self.encoding.as_deref()),
            ("padded", self.padded.as_deref()),
        ] {
            if let Some(value) = value {
                return Err(invalid(format!(
                    "{name} = {value:?}: must be left out for code {code:?}, whose numbers are \
                     written as {form}: ask for one ID, or for n of them"
                )));
            }
        }
        Ok(())
    }
}

/// A request for IDs, of which only the form of the code is checked.
#[derive(Debug)]
pub(in crate::server) struct IdParameters {
    pub(super) state: Arc<AppState>,
    pub(super) client: Client,
    pub(super) method: Method,
    pub(super) idempotency_key: Option<IdempotencyKey>,
    /// The client's id of a POST, for the log.
    pub(super) request_id: Option<HeaderValue>,
    code: String,
    query: IdsQuery,
    prefers_text: bool,
}

impl FromRequestParts<Arc<AppState>> for IdParameters {
    type Rejection = Problem;

    async fn from_request_parts(head: &mut Parts, state: &Arc<AppState>) -> Result<Self, Problem> {
        let Ok(client) = Client::from_request_parts(head, state).await;
        let Ok(InPath(code)) = InPath::from_request_parts(head, state).await;
        let code = code.ok_or_else(|| invalid_code("that is not UTF-8"))?;
        if !is_valid_code(&code) {
            return Err(invalid_code(&format!("{code:?}")));
        }
        let query = IdsQuery::read(&head.uri)?;
        let prefers_text = prefers_text(&head.headers);
        let (state, method) = (Arc::clone(state), head.method.clone());
        // Not all headers: many requests may wait for their bodies.
        let idempotency_key = key_of(&head.headers)?;
        let request_id = id_of_client(&head.headers).filter(|_| method == Method::POST).cloned();
        Ok(Self { state, client, method, idempotency_key, request_id, code, query, prefers_text })
    }
}

/// A checked request for IDs. Checking claims nothing.
#[derive(Debug)]
pub(super) struct IdRequest<'a> {
    pub(super) issuer: &'a NamespaceIssuer,
    pub(super) code: &'a str,
    pub(super) is_batch: bool,
    pub(super) count: Count,
    pub(super) texts: Texts,
    /// The text before each ID.
    pub(super) prefix: &'a str,
    /// For a past instant: the backfill that issues the IDs, and the instant in Unix milliseconds.
    pub(super) backfill: Option<(&'a Backfill, i64)>,
    /// Whether the code is strict.
    pub(super) is_strict: bool,
    /// Whether the request log needs the number of IDs.
    pub(super) is_counted: bool,
}

impl<'a> IdRequest<'a> {
    pub(super) fn read(parameters: &'a IdParameters, is_batch: bool) -> Result<Self, Problem> {
        let IdParameters { state, client, code, query, .. } = parameters;
        let caller = &client.caller;
        for (name, value) in [("n", &query.n), ("up_to", &query.up_to)] {
            if value.is_some() && !is_batch {
                return Err(invalid(format!("unknown parameter {name:?}: /ids has it")));
            }
        }
        caller.check_code(code)?;
        let requested = query.namespace.as_deref();
        let located = state.codes.locate(code, requested);
        let own = located.as_ref().map_or_else(WrongNamespace::own, |located| located.namespace);
        caller.check_namespace(own, requested)?;
        let LocatedCode { namespace, prefix, encoding: own_encoding } = located?;
        let issuer = state.issuer(namespace)?;
        let (form, is_strict) = match issuer {
            NamespaceIssuer::Snowflake(_) => (None, false),
            NamespaceIssuer::Segment(issuer) => issuer.form_and_order(code),
        };
        if is_strict {
            query.refuse_of_strict(&parameters.method, code)?;
        }
        if let Some(form) = &form {
            query.refuse_beside(form, code)?;
        }
        let count = read_count(query, issuer, &state.http)?;
        let requested_format = query.format.as_deref();
        let format = read_format(requested_format, is_batch, parameters.prefers_text)?;
        // JSON numbers and ranges are numbers, so the encoding of the code does not count there.
        let by_code = if matches!(requested_format, Some("number" | "range")) {
            Encoding::Decimal
        } else {
            own_encoding
        };
        let encoding = encoding(query.encoding.as_deref())?.unwrap_or(by_code);
        let (padded, allowed) = (query.padded.as_deref(), || "true or false".into());
        let is_padded = parse("padded", padded, allowed, |it| it.parse().ok())?.unwrap_or_default();
        let texts = Texts { format, encoding, is_padded, form };
        if !texts.are_plain() {
            Encoder::new(encoding, is_padded, issuer.layout())?;
        }
        encoding.check_prefix(prefix.unwrap_or_default()).map_err(|error| {
            Problem::new(ProblemCode::NotEncodable, format!("code {code:?}: {error}"))
        })?;
        if let Some(format @ ("number" | "range")) = requested_format {
            let because = match (prefix, texts.are_plain()) {
                (Some(prefix), _) if format == "number" => {
                    format!("for code {code:?}, whose IDs begin with {prefix:?}")
                }
                (_, false) => "with encoding or padded, which write texts".into(),
                (_, true) => String::new(),
            };
            if !because.is_empty() {
                let detail = format!("format = {format:?}: must be string {because}");
                let problem = match encoding.is_uuid() {
                    true => ProblemCode::NotEncodable,
                    false => ProblemCode::InvalidParameter,
                };
                return Err(Problem::new(problem, detail));
            }
        }
        let backfill = read_past(parameters, issuer.namespace())?;
        // JSON numbers above 2^53 - 1 are refused before the claim, whose IDs would be lost. IDs
        // only grow, so the smallest possible one decides.
        if format == BodyFormat::Numbers {
            let at_ms = || backfill.map_or_else(|| state.clock.now_ms(), |(_, at_ms)| at_ms);
            let at_least = match issuer {
                NamespaceIssuer::Snowflake(issuer) => smallest_at(issuer.layout(), at_ms()),
                NamespaceIssuer::Segment(issuer) => issuer.last_at_least(code, count.most()),
            };
            at_least.map_or(Ok(()), |id| refuse_unsafe(id, issuer))?;
        }
        let prefix = prefix.unwrap_or_default();
        let is_counted = state.request_log.needs_count();
        Ok(Self { issuer, code, is_batch, count, texts, prefix, backfill, is_strict, is_counted })
    }
}

/// Reads the parameter `at`: returns the namespace's backfill and the instant in Unix milliseconds.
fn read_past<'a>(
    parameters: &'a IdParameters,
    namespace: &str,
) -> Result<Option<(&'a Backfill, i64)>, Problem> {
    let Some(at) = parameters.query.at.as_deref() else { return Ok(None) };
    // POST only: each response costs a durable write of the store, and its IDs are gone for good.
    let method = &parameters.method;
    if method != Method::POST {
        return Err(invalid(format!("at = {at:?}: requires POST, not {method}")));
    }
    let at_ms = instant("at", Some(at))?;
    let backfill = parameters.state.backfills.get(namespace).ok_or_else(|| {
        let detail = format!(
            "namespace {namespace:?} does not support backfill: it is in segment mode, or its store \
             is memory:"
        );
        Problem::new(ProblemCode::OutOfRange, detail)
    })?;
    Ok(at_ms.map(|at_ms| (backfill, at_ms)))
}

fn invalid_code(found: &str) -> Problem {
    let detail = format!("code {found} must match {CODE_PATTERN}");
    Problem::new(ProblemCode::InvalidCode, detail)
}

fn read_count(
    query: &IdsQuery,
    issuer: &NamespaceIssuer,
    http: &HttpConfig,
) -> Result<Count, Problem> {
    let Some(up_to) = &query.up_to else {
        let n = query.n.as_deref().map(|n| parse_count("n", n, http.max_batch));
        return n.unwrap_or(Ok(1)).map(Count::Exactly);
    };
    let because = if query.n.is_some() {
        "not possible with n"
    } else if query.at.is_some() {
        "not possible with at"
    } else if query.format.as_deref() != Some("range") {
        "requires format=range"
    } else {
        let most = match issuer {
            NamespaceIssuer::Snowflake(issuer) => issuer.largest_claim().min(http.max_range),
            NamespaceIssuer::Segment(_) => http.max_range,
        };
        return parse_count("up_to", up_to, most).map(Count::UpTo);
    };
    Err(invalid(format!("up_to = {up_to:?}: {because}")))
}

fn parse_count(name: &str, text: &str, most: u32) -> Result<u32, Problem> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = text.parse().ok().filter(|count| digits_only && (1..=most).contains(count));
    count.ok_or_else(|| {
        let detail = format!("{name} = {text:?}: must be 1 to {most}");
        Problem::new(ProblemCode::InvalidCount, detail)
    })
}

fn read_format(
    format: Option<&str>,
    is_batch: bool,
    prefers_text: bool,
) -> Result<BodyFormat, Problem> {
    match format {
        Some("range") if is_batch && prefers_text => {
            Err(invalid("format = \"range\": not possible with Accept: text/plain"))
        }
        Some("range") if is_batch => Ok(BodyFormat::Ranges),
        None | Some("string" | "number") if prefers_text => Ok(BodyFormat::Lines),
        None | Some("string") => Ok(BodyFormat::Strings),
        Some("number") => Ok(BodyFormat::Numbers),
        Some(other) => {
            let allowed = if is_batch { "string, number or range" } else { "string or number" };
            Err(invalid(format!("format = {other:?}: must be {allowed}")))
        }
    }
}

/// Returns the smallest ID that can be issued at this instant.
fn smallest_at(layout: &Layout, now_ms: i64) -> Option<Id> {
    let tick = layout.tick_in_range(now_ms)?;
    let sequence = layout.min_sequence();
    let fields = Fields { tick, data_center: 0, worker: 0, lane: 0, sequence, reserved: 0 };
    layout.compose(&fields).ok()
}

/// Refuses to write an ID as a JSON number that JavaScript would round.
pub(super) fn refuse_unsafe(id: Id, issuer: &NamespaceIssuer) -> Result<(), Problem> {
    if id.is_js_safe() {
        return Ok(());
    }
    let lasting = match issuer {
        NamespaceIssuer::Snowflake(_) => {
            ", or configure layout.preset = js-safe before the namespace's first ID"
        }
        NamespaceIssuer::Segment(_) => "",
    };
    let detail = format!(
        "IDs are above {} now, so JSON numbers would lose digits; ask for format=string{lasting}",
        Id::MAX_JS_SAFE
    );
    Err(Problem::new(ProblemCode::UnsafeNumber, detail))
}
