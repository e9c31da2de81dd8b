//! `/codes`: the codes of segment mode, listed and managed while the service runs.

mod body;
mod document;
mod error;

use std::sync::Arc;

use axum::http::{HeaderMap, Method, Response, StatusCode, header};

use self::{
    body::{RaiseBody, SettingsBody},
    document::{CodeDocument, CodeList},
};
use super::super::{
    auth::Permission,
    body::{ResponseBody, uncached_json},
    params::{Params, invalid, read_body},
    problem::{Problem, ProblemCode as P},
    route::{Call, Handler, HandlerFuture, Kind, Listener, Route, schema_ref, schemas_of},
};
use crate::{
    core::code::is_valid_code,
    keeper::{CodeManager, CodeView, SegmentIssuer, SegmentSettings},
    server::issuer::NamespaceIssuer,
};

/// The most codes that a list has.
const LISTED: usize = 1_000;

const CODES: Route = Route {
    listener: Listener::Operators,
    permission: Some(Permission::Admin),
    parameters: &["namespace"],
    content: &[("application/json", || schema_ref("Code"))],
    schemas: schemas_of::<CodeDocument>,
    problems: &[
        P::InvalidCode,
        P::InvalidParameter,
        P::Forbidden,
        P::UnknownNamespace,
        P::UnknownCode,
        P::Overloaded,
        P::StoreUnavailable,
        P::StoreLost,
    ],
    ..Route::new("/codes", Handler::Later(list))
};

pub(in crate::server) static LIST: Route = Route {
    summary: "The codes of segment mode",
    description: "By name, at most 1000 of them: those behind `after`, where that is given. Where \
                  there are more, give a namespace too.",
    kind: Kind::Liveness,
    operation: "codes",
    parameters: &["namespace", "after"],
    content: &[("application/json", || schema_ref("Codes"))],
    schemas: schemas_of::<CodeList>,
    ..CODES
};

pub(in crate::server) static CODE: Route = Route {
    path: "/codes/{code}",
    summary: "A code of segment mode",
    description: "PUT creates a code or replaces all of its settings, PATCH changes those that \
                  are given. Every node follows within 30 s; one that does not know a code looks \
                  at once.",
    kind: Kind::Settings,
    operation: "code",
    handler: Handler::Later(code),
    problems: &[
        P::InvalidCode,
        P::InvalidParameter,
        P::Forbidden,
        P::UnknownNamespace,
        P::UnknownCode,
        P::Conflict,
        P::PreconditionFailed,
        P::UnsupportedMediaType,
        P::TooManyCodes,
        P::Overloaded,
        P::StoreUnavailable,
        P::StoreLost,
    ],
    body: Some(("SettingsBody", schemas_of::<SettingsBody>)),
    ..CODES
};

pub(in crate::server) static RAISE: Route = Route {
    path: "/codes/{code}/raise",
    summary: "Raises the next number of a code",
    description: "By a number of numbers, or to a number. What is skipped is only a gap, so this \
                  is always safe.",
    kind: Kind::Action,
    operation: "raise_code",
    handler: Handler::Later(raise),
    body: Some(("RaiseBody", schemas_of::<RaiseBody>)),
    ..CODE
};

pub(in crate::server) static RETIRE: Route = Route {
    path: "/codes/{code}/retire",
    summary: "Retires a code for good",
    description: "No number of it is reserved again. Nodes that have numbers in hand stop within \
                  30 s.",
    kind: Kind::Action,
    operation: "retire_code",
    handler: Handler::Later(retire),
    body: None,
    ..CODE
};

/// A code that a request is about.
struct Target<'a> {
    issuer: &'a SegmentIssuer,
    code: &'a str,
}

fn list<'a>(call: &'a Call<'a>) -> HandlerFuture<'a> {
    Box::pin(async move {
        let (namespaces, after) = namespaces(call)?;
        let (store, _turn) = call.state.store().await?;
        let failed = |error| error::of_store(&error, call.is_operator);
        let listed = match namespaces.is_empty() {
            // The store need not have the table then.
            true => Vec::new(),
            false => store.segments().await.map_err(failed)?,
        };
        let mut views = Vec::new();
        for settings in namespaces {
            let manager = CodeManager::new(Arc::clone(&store), settings);
            views.extend(manager.views(listed.clone()).await.map_err(failed)?);
        }
        views.retain(|view: &CodeView| {
            view.listed.code > after && call.caller.check_code(&view.listed.code).is_ok()
        });
        let mut codes: Vec<_> = views.into_iter().map(CodeDocument::from).collect();
        codes.sort_by(|one, other| one.order().cmp(&other.order()));
        let has_more = codes.len() > LISTED;
        codes.truncate(LISTED);
        Ok(uncached_json(StatusCode::OK, &CodeList { codes, has_more }))
    })
}

/// The segment namespaces that a list is about, and the code that it begins behind.
fn namespaces(call: &Call<'_>) -> Result<(Vec<SegmentSettings>, String), Problem> {
    let params = Params::read(&call.head.uri, call.route.parameters)?;
    let issuers = issuers(call, params.get("namespace"))?.into_iter();
    let settings = issuers.map(|issuer| issuer.settings().clone()).collect();
    Ok((settings, params.get("after").unwrap_or_default().to_owned()))
}

fn code<'a>(call: &'a Call<'a>) -> HandlerFuture<'a> {
    Box::pin(async move {
        let target = target(call)?;
        let (store, _turn) = call.state.store().await?;
        let manager = CodeManager::new(store, target.issuer.settings().clone());
        let failed = |error| error::of_manager(error, call.is_operator);
        let mut status = StatusCode::OK;
        if call.head.method == Method::PUT {
            let body: SettingsBody = read_body(&call.body)?;
            let is_new = must_be_new(&call.head.headers)?;
            // One that is bound elsewhere could never be asked for.
            call.state.codes.locate(target.code, Some(target.issuer.namespace()))?;
            if manager.put(target.code, &body.into(), is_new).await.map_err(failed)? {
                status = StatusCode::CREATED;
            }
        } else if call.head.method == Method::PATCH {
            let body: SettingsBody = read_body(&call.body)?;
            manager.patch(target.code, &body.into()).await.map_err(failed)?;
        }
        answer(call, &target, &manager, status).await
    })
}

fn raise<'a>(call: &'a Call<'a>) -> HandlerFuture<'a> {
    Box::pin(async move {
        let target = target(call)?;
        let raise: RaiseBody = read_body(&call.body)?;
        let (store, _turn) = call.state.store().await?;
        let manager = CodeManager::new(store, target.issuer.settings().clone());
        let failed = |error| error::of_manager(error, call.is_operator);
        match raise.amount()? {
            body::Amount::To(to) => {
                manager.raise_to(target.code, to).await.map_err(failed)?;
            }
            body::Amount::By(by) => {
                manager.raise_by(target.code, by).await.map_err(failed)?;
            }
        }
        answer(call, &target, &manager, StatusCode::OK).await
    })
}

fn retire<'a>(call: &'a Call<'a>) -> HandlerFuture<'a> {
    Box::pin(async move {
        let target = target(call)?;
        let (store, _turn) = call.state.store().await?;
        let manager = CodeManager::new(store, target.issuer.settings().clone());
        let retired = manager.retire(target.code).await;
        retired.map_err(|error| error::of_manager(error, call.is_operator))?;
        answer(call, &target, &manager, StatusCode::OK).await
    })
}

/// Answers a code as it is now; this node follows what was changed at once.
async fn answer(
    call: &Call<'_>,
    target: &Target<'_>,
    manager: &CodeManager,
    status: StatusCode,
) -> Result<Response<ResponseBody>, Problem> {
    if call.head.method != Method::GET && call.head.method != Method::HEAD {
        let (namespace, code) = (target.issuer.namespace(), target.code);
        let by = call.caller.name().unwrap_or("an operator");
        let (method, path) = (call.head.method.as_str(), call.route.path);
        tracing::info!(namespace, code, by, method, path, "code managed");
        // The next poll makes up for a failure.
        let _ = target.issuer.refresh().await;
    }
    let listed = manager.list().await;
    let listed = listed.map_err(|error| error::of_store(&error, call.is_operator))?;
    let view = listed.into_iter().find(|view| view.listed.code == target.code);
    let view = view.ok_or_else(|| {
        let (code, namespace) = (target.code, target.issuer.namespace());
        Problem::new(P::UnknownCode, format!("code {code:?} is not in namespace {namespace:?}"))
    })?;
    Ok(uncached_json(status, &CodeDocument::from(view)))
}

/// The segment namespaces that a request is about, and that the caller may use.
fn issuers<'a>(
    call: &'a Call<'_>,
    requested: Option<&str>,
) -> Result<Vec<&'a SegmentIssuer>, Problem> {
    if let Some(name) = requested {
        call.caller.check_namespace(name, Some(name))?;
        return match call.state.issuer(name)? {
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
    let all = call.state.issuers.values().filter_map(segment);
    Ok(all.filter(|issuer| call.caller.may_use(issuer.namespace())).collect())
}

fn target<'a>(call: &'a Call<'a>) -> Result<Target<'a>, Problem> {
    let params = Params::read(&call.head.uri, call.route.parameters)?;
    let code = call.parameter.as_deref().unwrap_or_default();
    if !is_valid_code(code) {
        return Err(crate::core::issue::ClaimError::InvalidCode(code.to_owned()).into());
    }
    call.caller.check_code(code)?;
    let issuers = issuers(call, params.get("namespace"))?;
    let [issuer] = issuers.as_slice() else {
        let names: Vec<&str> = issuers.iter().map(|issuer| issuer.namespace()).collect();
        return Err(match names.is_empty() {
            true => Problem::new(P::UnknownNamespace, "no namespace is in segment mode"),
            false => invalid(format!("namespace: must be given, one of {}", names.join(", "))),
        });
    };
    Ok(Target { issuer, code })
}

/// Whether the code must not be managed yet: `If-None-Match: *` (RFC 9110).
fn must_be_new(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(header::IF_NONE_MATCH) {
        None => Ok(false),
        Some(value) if value == "*" => Ok(true),
        Some(value) => Err(invalid(format!("the header If-None-Match = {value:?}: must be *"))),
    }
}
