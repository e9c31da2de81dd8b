//! The route table and what surrounds it.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::{Body, HttpBody},
    extract::{Request, State},
    handler::Handler,
    http::{HeaderName, HeaderValue, Method, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::{
    auth::{Caller, Known, authenticate},
    endpoints::{
        bounds::bounds,
        cluster::cluster,
        document::document,
        health::{health, live, ready},
        issue::issue,
        metrics::metrics,
        parse::parse_id,
    },
    guard::{check_length, drain, guarded},
    metrics::track,
    pace::Pace,
    problem::{Problem, ProblemCode},
    state::AppState,
};
use crate::config::CorsOrigins;

/// Every route, as metrics name them.
pub(super) const ROUTES: [&str; 10] = [
    "/id/{code}",
    "/ids/{code}",
    "/parse/{id}",
    "/bounds",
    "/health",
    "/livez",
    "/readyz",
    "/metrics",
    "/cluster",
    "/openapi.json",
];

/// Which of them issues one ID.
pub(super) const ONE: usize = 0;
/// Which of them issues many.
pub(super) const MANY: usize = 1;

/// The whole service, ready to be called.
pub fn router(state: Arc<AppState>) -> Router {
    // Probes and metrics answer however many requests for IDs are in flight.
    let api = Router::new()
        .route(ROUTES[ONE], issuing(issue::<false>))
        .route(ROUTES[MANY], issuing(issue::<true>))
        .route("/parse/{id}", get(parse_id))
        .route("/bounds", get(bounds))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(state.clone(), bound_in_flight));
    let operations = Router::new().route("/openapi.json", get(document(Arc::clone(&state))));
    let operations = if state.http.admin_listen.is_some() {
        operations.route("/health", get(ready))
    } else {
        operations.route("/health", get(health)).route("/metrics", get(metrics))
    };
    let operations = operations.method_not_allowed_fallback(method_not_allowed);

    // Outermost last: errors of the inner layers are counted and readable for browsers, too.
    let protected = |router| match state.auth {
        Some(_) => bounded(router, &state).layer(from_fn_with_state(state.clone(), authenticate)),
        None => bounded(router, &state),
    };
    let api = match cors(&state.http.cors_origins) {
        Some(cors) => protected(api).layer(cors).layer(from_fn(only_browsers)),
        None => protected(api),
    };
    let all = api.merge(protected(operations)).merge(bounded(probes(), &state));
    finished(all.fallback(not_found), state)
}

/// What operators ask for, on the listener of their own. It needs no token.
pub(super) fn admin_router(state: Arc<AppState>) -> Router {
    let operations = Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/cluster", get(cluster))
        .method_not_allowed_fallback(method_not_allowed)
        .merge(probes());
    finished(bounded(operations, &state).fallback(no_route), state)
}

/// Orchestrators have no token.
fn probes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .method_not_allowed_fallback(method_not_allowed)
}

fn bounded(router: Router<Arc<AppState>>, state: &Arc<AppState>) -> Router<Arc<AppState>> {
    router.layer(from_fn_with_state(Arc::clone(state), keep_bounds))
}

fn finished(router: Router<Arc<AppState>>, state: Arc<AppState>) -> Router {
    router
        .layer(from_fn_with_state(state.clone(), bound_body))
        .layer(from_fn(bound_uri))
        .layer(from_fn_with_state(state.clone(), track))
        .with_state(state)
}

/// GET and POST claim; the handler sees to it that HEAD, which comes with GET, does not.
fn issuing<H, T>(handler: H) -> MethodRouter<Arc<AppState>>
where
    H: Handler<T, Arc<AppState>>,
    T: 'static,
{
    get(handler.clone()).post(handler)
}

fn cors(origins: &CorsOrigins) -> Option<CorsLayer> {
    let origin = match origins {
        CorsOrigins::Any => AllowOrigin::any(),
        CorsOrigins::List(origins) if origins.is_empty() => return None,
        CorsOrigins::List(origins) => AllowOrigin::list(origins.clone()),
    };
    let layer = CorsLayer::new()
        .allow_origin(origin)
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        // Every header, and the one that * leaves out.
        .allow_headers([HeaderName::from_static("*"), header::AUTHORIZATION])
        .expose_headers([header::RETRY_AFTER])
        .max_age(Duration::from_hours(1));
    Some(layer)
}

/// The CORS layer takes every OPTIONS for a preflight; others are just another method. It speaks
/// to everyone; answers with IDs, which no cache keeps, speak of CORS to browsers only.
async fn only_browsers(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let is_browser = headers.contains_key(header::ORIGIN);
    let is_preflight = headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let path = request.uri().path();
    let issues = path.starts_with("/id/") || path.starts_with("/ids/");
    if request.method() == Method::OPTIONS && !is_preflight {
        let mut response = method_not_allowed(request).await.into_response();
        let allowed = if issues { "GET,HEAD,POST" } else { "GET,HEAD" };
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        return response;
    }
    let mut response = next.run(request).await;
    if issues && !is_browser && !is_preflight {
        let headers = response.headers_mut();
        headers.remove(header::ACCESS_CONTROL_ALLOW_ORIGIN);
        headers.remove(header::ACCESS_CONTROL_EXPOSE_HEADERS);
        headers.remove(header::VARY);
    }
    response
}

async fn bound_in_flight(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    match state.enter() {
        Ok(_place) => next.run(request).await,
        Err(overloaded) => overloaded.into_response(),
    }
}

async fn keep_bounds(State(state): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    guarded(state.http.request_timeout, next.run(request))
        .await
        .unwrap_or_else(Problem::into_response)
}

async fn bound_uri(request: Request, next: Next) -> Response {
    match check_length(request.uri()) {
        Ok(()) => next.run(request).await,
        Err(too_long) => too_long.into_response(),
    }
}

async fn bound_body(State(state): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let drained = guarded(state.http.request_timeout, drain(body)).await.flatten();
    if let Some(pace) = head.extensions.get::<Arc<Pace>>() {
        pace.answering();
    }
    match drained {
        Ok(()) => next.run(Request::from_parts(head, Body::empty())).await,
        Err(problem) => problem.into_response(),
    }
}

async fn not_found(_: Caller, request: Request) -> (Extension<Known>, Problem) {
    (Extension(Known), no_route(request).await)
}

async fn no_route(request: Request) -> Problem {
    let detail = format!("there is no route {:?}", request.uri().path());
    Problem::new(ProblemCode::NotFound, detail)
}

async fn method_not_allowed(request: Request) -> Problem {
    let detail = format!("{} is not allowed on {:?}", request.method(), request.uri().path());
    Problem::new(ProblemCode::MethodNotAllowed, detail)
}
