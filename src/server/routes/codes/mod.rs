//! `/codes`: the codes of segment mode, listed and managed while the service runs.

mod body;
mod document;
mod error;
mod settings;

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, State},
    http::{HeaderMap, Method, StatusCode, header, request::Parts},
    response::Response,
};
use serde::Deserialize;
use tokio::sync::MutexGuard;
use utoipa::IntoParams;

use self::{
    body::{Amount, RaiseBody},
    document::CodeList,
};
pub(crate) use self::{document::CodeDocument, settings::GivenSettings};
use crate::{
    config::SERIES_IS_CONFIGURED,
    core::{
        code::{is_valid_code, series_of_name, successor},
        issue::ClaimError,
        segment::{SpecChange, TextForm},
    },
    keeper::{CodeManager, CodeView, ManageError, NamespaceIssuer, SegmentIssuer},
    server::{
        extract::{Client, CodeInPath, InPath, JsonBody, NoBody, Query, invalid},
        openapi::{self, names},
        response::{Problem, ProblemCode as P, body::uncached_json, store_problem},
        state::AppState,
    },
    store::Store,
};

/// The most codes in a page of the list.
const LISTED: u32 = 1_000;

const READ: &[P] = &[
    P::InvalidCode,
    P::InvalidParameter,
    P::UnknownNamespace,
    P::UnknownCode,
    P::StoreUnavailable,
    P::StoreLost,
];

const CHANGED: &[P] =
    &[P::Conflict, P::PreconditionFailed, P::UnsupportedMediaType, P::TooManyCodes];

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct ListQuery {
    /// Whose codes alone.
    #[param(inline, value_type = Option<openapi::Namespace>)]
    namespace: Option<String>,
    /// The code that the list begins behind.
    #[param(value_type = Option<String>, max_length = 64)]
    after: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct CodeQuery {
    /// The namespace of the code; needed only if several namespaces are in segment mode.
    #[param(inline, value_type = Option<openapi::Namespace>)]
    namespace: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct PatchQuery {
    /// The namespace of the code; needed only if several namespaces are in segment mode.
    #[param(inline, value_type = Option<openapi::Namespace>)]
    namespace: Option<String>,
    /// Whether to change nothing, and to answer with the code as it would be.
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
}

/// The codes of segment mode
///
/// Lists the first 1000 codes by name or, with `after`, the first 1000 behind that name. The list
/// has its last name for every namespace that has the code.
#[utoipa::path(
    get,
    path = "/codes",
    operation_id = "codes",
    params(ListQuery),
    responses((status = 200, description = "The codes of segment mode", body = CodeList)),
    extensions(("x-problems" = json!(names(&[READ])))),
)]
pub(in crate::server) async fn list(
    State(state): State<Arc<AppState>>,
    client: Client,
    Query(query): Query<ListQuery>,
) -> Result<Response, Problem> {
    let issuers = issuers(&state, &client, query.namespace.as_deref())?;
    let mut first = match query.after {
        None => String::new(),
        Some(after) if is_valid_code(&after) => successor(&after),
        Some(after) => return Err(ClaimError::InvalidCode(after).into()),
    };
    let (mut codes, mut has_more) = (Vec::new(), true);
    // The store's pages contain codes of other callers, too: read on until this page is full.
    while has_more
        && codes.len() < LISTED as usize
        && let Some(allowed) = client.caller.code_from(&first)
    {
        let mut page = Vec::new();
        let store = state.store().await?;
        for issuer in &issuers {
            let manager = CodeManager::new(Arc::clone(&store), issuer.settings().clone());
            let listed = manager.list(allowed, LISTED + 1).await;
            let listed = listed.map_err(|error| store_problem(&error, client.is_operator()))?;
            page.extend(listed.into_iter().map(|view| CodeDocument::of(view, issuer)));
        }
        drop(store);
        page.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
        has_more = cut(&mut page);
        if let Some(last) = page.last() {
            first = successor(&last.code);
        }
        page.retain(|listed| client.caller.has_code(&listed.code));
        codes.extend(page);
    }
    has_more &= client.caller.code_from(&first).is_some();
    has_more |= cut(&mut codes);
    client.json(StatusCode::OK, &CodeList { codes, has_more })
}

/// Cuts a page after [`LISTED`] codes, but keeps the last code's namesakes in other namespaces,
/// because the next page begins after that name. Returns whether codes were cut off.
fn cut(codes: &mut Vec<CodeDocument>) -> bool {
    let Some(last) = codes.get(LISTED as usize - 1).map(|listed| &listed.code) else {
        return false;
    };
    let end = codes.partition_point(|listed| listed.code <= *last);
    let has_more = end < codes.len();
    codes.truncate(end);
    has_more
}

/// A code of segment mode
#[utoipa::path(
    get,
    path = "/codes/{code}",
    operation_id = "code",
    params(CodeInPath, CodeQuery),
    responses((status = 200, description = "A code of segment mode", body = CodeDocument)),
    extensions(("x-problems" = json!(names(&[READ])))),
)]
pub(in crate::server) async fn get(target: Target) -> Result<Response, Problem> {
    let (manager, _turn) = target.manager().await?;
    target.answer(&manager, StatusCode::OK).await
}

/// A code of segment mode
///
/// Creates a code or replaces all of its settings. Every node follows within 30 s; a node that does
/// not know the code reads it at once.
#[utoipa::path(
    put,
    path = "/codes/{code}",
    operation_id = "code",
    params(CodeInPath, CodeQuery),
    request_body = GivenSettings,
    responses(
        (status = 200, description = "A code of segment mode", body = CodeDocument),
        (status = 201, description = "A code of segment mode", body = CodeDocument),
    ),
    extensions(("x-problems" = json!(names(&[READ, CHANGED])))),
)]
pub(in crate::server) async fn put(
    target: Target,
    headers: HeaderMap,
    JsonBody(body): JsonBody<GivenSettings>,
) -> Result<Response, Problem> {
    let is_new = must_be_new(&headers)?;
    // A code that is bound to another namespace could never be requested from this one.
    let namespace = target.issuer.namespace();
    if let Err(error) = target.state.codes.locate(&target.code, Some(namespace)) {
        target.client.caller.check_namespace(error.own(), Some(namespace))?;
        return Err(error.into());
    }
    let (manager, _turn) = target.manager().await?;
    let change = SpecChange::from(body);
    let put = manager.put(&target.code, &change, is_new).await;
    let status = if put.map_err(|error| target.failed(error))? {
        if let Some(form) = &change.text {
            target.warn_of_equal_texts(&manager, form).await;
        }
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    target.changed(&manager, status).await
}

/// A code of segment mode
///
/// Changes only the settings in the request. Every node follows within 30 s; a node that does not
/// know the code reads it at once. With `dry_run`, nothing is changed, and the answer has the code as
/// it would be.
#[utoipa::path(
    patch,
    path = "/codes/{code}",
    operation_id = "code",
    params(CodeInPath, PatchQuery),
    request_body = GivenSettings,
    responses((status = 200, description = "A code of segment mode", body = CodeDocument)),
    extensions(("x-problems" = json!(names(&[READ, CHANGED])))),
)]
pub(in crate::server) async fn patch(
    target: Target,
    JsonBody(body): JsonBody<GivenSettings>,
) -> Result<Response, Problem> {
    let (manager, _turn) = target.manager().await?;
    let change = body.into();
    if target.is_dry_run {
        let spec = manager.preview_patch(&target.code, &change).await;
        let spec = spec.map_err(|error| target.failed(error))?;
        return Ok(target.answer_with(target.view(&manager).await?.with(spec), StatusCode::OK));
    }
    manager.patch(&target.code, &change).await.map_err(|error| target.failed(error))?;
    target.changed(&manager, StatusCode::OK).await
}

/// Raises the next number of a code
///
/// Raises the next number to a number, or by a count of numbers. Skipped numbers are only a gap, so
/// this is always safe.
#[utoipa::path(
    post,
    path = "/codes/{code}/raise",
    operation_id = "raise_code",
    params(CodeInPath, CodeQuery),
    request_body = RaiseBody,
    responses((status = 200, description = "Raises the next number of a code", body = CodeDocument)),
    extensions(("x-problems" = json!(names(&[READ, CHANGED])))),
)]
pub(in crate::server) async fn raise(
    target: Target,
    JsonBody(body): JsonBody<RaiseBody>,
) -> Result<Response, Problem> {
    let amount = body.amount()?;
    let (manager, _turn) = target.manager().await?;
    let raised = match amount {
        Amount::To(to) => manager.raise_to(&target.code, to).await.map(drop),
        Amount::By(by) => manager.raise_by(&target.code, by).await.map(drop),
    };
    raised.map_err(|error| target.failed(error))?;
    target.changed(&manager, StatusCode::OK).await
}

/// Retires a code for good
///
/// No number of it is reserved again. Nodes that have numbers in hand stop within 30 s.
#[utoipa::path(
    post,
    path = "/codes/{code}/retire",
    operation_id = "retire_code",
    params(CodeInPath, CodeQuery),
    responses((status = 200, description = "Retires a code for good", body = CodeDocument)),
    extensions(("x-problems" = json!(names(&[READ, CHANGED])))),
)]
pub(in crate::server) async fn retire(target: Target, _: NoBody) -> Result<Response, Problem> {
    let (manager, _turn) = target.manager().await?;
    manager.retire(&target.code).await.map_err(|error| target.failed(error))?;
    target.changed(&manager, StatusCode::OK).await
}

/// The code that a request is about, in a namespace that the caller may use.
#[derive(Debug)]
pub(in crate::server) struct Target {
    state: Arc<AppState>,
    client: Client,
    issuer: SegmentIssuer,
    code: String,
    method: Method,
    path: String,
    /// Only of a `PATCH`.
    is_dry_run: bool,
}

impl FromRequestParts<Arc<AppState>> for Target {
    type Rejection = Problem;

    async fn from_request_parts(head: &mut Parts, state: &Arc<AppState>) -> Result<Self, Problem> {
        let Ok(client) = Client::from_request_parts(head, state).await;
        let (namespace, is_dry_run) = if head.method == Method::PATCH {
            let Query(query) = Query::<PatchQuery>::from_request_parts(head, state).await?;
            (query.namespace, query.dry_run)
        } else {
            let Query(query) = Query::<CodeQuery>::from_request_parts(head, state).await?;
            (query.namespace, false)
        };
        let Ok(InPath(code)) = InPath::from_request_parts(head, state).await;
        let code = code.unwrap_or_default();
        if series_of_name(&code).is_some() {
            let detail = format!("code {code:?} {SERIES_IS_CONFIGURED}");
            return Err(Problem::new(P::InvalidCode, detail));
        }
        if !is_valid_code(&code) {
            return Err(ClaimError::InvalidCode(code).into());
        }
        client.caller.check_code(&code)?;
        let issuers = issuers(state, &client, namespace.as_deref())?;
        let [issuer] = issuers.as_slice() else {
            let names: Vec<&str> = issuers.iter().map(|issuer| issuer.namespace()).collect();
            return Err(match names.is_empty() {
                true => Problem::new(P::UnknownNamespace, "no namespace is in segment mode"),
                false => invalid(format!("namespace: must be given, one of {}", names.join(", "))),
            });
        };
        Ok(Self {
            issuer: (*issuer).clone(),
            path: head.uri.path().to_owned(),
            method: head.method.clone(),
            state: Arc::clone(state),
            client,
            code,
            is_dry_run,
        })
    }
}

impl Target {
    /// Returns the manager of the namespace's codes. The guard lets one request at a time use the
    /// store.
    async fn manager(&self) -> Result<(CodeManager, MutexGuard<'_, Arc<dyn Store>>), Problem> {
        let store = self.state.store().await?;
        Ok((CodeManager::new(Arc::clone(&store), self.issuer.settings().clone()), store))
    }

    fn failed(&self, error: ManageError) -> Problem {
        error::manage_problem(error, self.client.is_operator())
    }

    /// Logs a change, applies it on this node at once, and answers with the changed code.
    async fn changed(
        &self,
        manager: &CodeManager,
        status: StatusCode,
    ) -> Result<Response, Problem> {
        let (namespace, code) = (self.issuer.namespace(), &self.code);
        let by = self.client.caller.name().unwrap_or("an operator");
        let (method, path) = (self.method.as_str(), self.path.as_str());
        tracing::info!(namespace, code, by, method, path, "code managed");
        // If this fails, the next poll of the store catches up.
        let _ = self.issuer.refresh().await;
        self.answer(manager, status).await
    }

    /// Warns of another code of the namespace that may issue equal texts.
    async fn warn_of_equal_texts(&self, manager: &CodeManager, form: &TextForm) {
        // If the store fails, only the warning is missing.
        if let Ok(Some((other, other_form))) = manager.with_equal_texts(&self.code, form).await {
            let (namespace, code) = (self.issuer.namespace(), &self.code);
            tracing::warn!(
                namespace,
                codes = format!("{code} and {other}"),
                texts = format!("{form} and {other_form}"),
                "codes may issue equal texts"
            );
        }
    }

    /// Answers with the code as the store has it now.
    async fn answer(&self, manager: &CodeManager, status: StatusCode) -> Result<Response, Problem> {
        Ok(self.answer_with(self.view(manager).await?, status))
    }

    /// Reads the code.
    async fn view(&self, manager: &CodeManager) -> Result<CodeView, Problem> {
        let found = manager.get(&self.code).await;
        let found = found.map_err(|error| store_problem(&error, self.client.is_operator()))?;
        found.ok_or_else(|| {
            let (code, namespace) = (&self.code, self.issuer.namespace());
            let detail = format!("code {code:?} is not in namespace {namespace:?}");
            Problem::new(P::UnknownCode, detail)
        })
    }

    fn answer_with(&self, view: CodeView, status: StatusCode) -> Response {
        // No reservation: the response is small, and a refusal would make a completed change look
        // failed.
        uncached_json(status, &CodeDocument::of(view, &self.issuer))
    }
}

/// Returns the segment namespaces that a request is about and the caller may use.
fn issuers<'a>(
    state: &'a AppState,
    client: &Client,
    requested: Option<&str>,
) -> Result<Vec<&'a SegmentIssuer>, Problem> {
    if let Some(name) = requested {
        client.caller.check_namespace(name, Some(name))?;
        return match state.issuer(name)? {
            NamespaceIssuer::Segment(issuer) => Ok(vec![issuer]),
            NamespaceIssuer::Snowflake(_) => {
                Err(invalid(format!("namespace {name:?} is not in segment mode: it has no codes")))
            }
        };
    }
    let segment = |issuer: &'a NamespaceIssuer| match issuer {
        NamespaceIssuer::Segment(issuer) => Some(issuer),
        NamespaceIssuer::Snowflake(_) => None,
    };
    let all = state.issuers.values().filter_map(segment);
    Ok(all.filter(|issuer| client.caller.may_use(issuer.namespace())).collect())
}

/// Returns whether the request demands that the code is not managed yet: `If-None-Match: *` (RFC
/// 9110).
fn must_be_new(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(header::IF_NONE_MATCH) {
        None => Ok(false),
        Some(value) if value == "*" => Ok(true),
        Some(value) => Err(invalid(format!("the header If-None-Match = {value:?}: must be *"))),
    }
}
