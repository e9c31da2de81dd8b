//! The route table and what surrounds it.

use std::{any::Any, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    handler::Handler,
    http::{HeaderValue, Method, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowOrigin, Any as AnyHeader, CorsLayer},
};

use super::{
    config::CorsOrigins,
    endpoints::{
        answer::head,
        bounds::bounds,
        health::{health, live, ready},
        id::next_id,
        ids::next_ids,
        metrics::metrics,
        parse::parse_id,
    },
    metrics::track,
    problem::{Problem, ProblemCode},
    state::AppState,
};

/// Longer addresses than this are refused; the longest useful one has a few hundred bytes.
const LONGEST_URI: usize = 4096;

/// Every route, as metrics name them.
pub(super) const ROUTES: [&str; 8] = [
    "/id/{code}",
    "/ids/{code}",
    "/parse/{id}",
    "/bounds",
    "/health",
    "/livez",
    "/readyz",
    "/metrics",
];

/// The whole service, ready to be called.
pub fn router(state: Arc<AppState>) -> Router {
    // Probes and metrics answer however many requests for IDs are in flight.
    let api = Router::new()
        .route("/id/{code}", issuing(next_id, head::<false>))
        .route("/ids/{code}", issuing(next_ids, head::<true>))
        .route("/parse/{id}", get(parse_id))
        .route("/bounds", get(bounds))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(state.clone(), bound_in_flight));
    let operations = Router::new()
        .route("/health", get(health))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .method_not_allowed_fallback(method_not_allowed);

    // Outermost last: errors of the inner layers are counted and readable for browsers, too.
    let guard = |router: Router<Arc<AppState>>| {
        router
            .layer(from_fn_with_state(state.clone(), bound_time))
            .layer(CatchPanicLayer::custom(panicked))
    };
    let api = match cors(&state.http.cors_origins) {
        Some(cors) => guard(api).layer(cors).layer(from_fn(only_preflights)),
        None => guard(api),
    };
    api.merge(guard(operations))
        .fallback(not_found)
        .layer(from_fn(bound_uri))
        .layer(from_fn_with_state(state.clone(), track))
        .with_state(state)
}

/// GET and POST claim, HEAD must not: by default it would run the GET handler.
fn issuing<H, T, G, U>(claim: H, head: G) -> MethodRouter<Arc<AppState>>
where
    H: Handler<T, Arc<AppState>>,
    G: Handler<U, Arc<AppState>>,
    T: 'static,
    U: 'static,
{
    get(claim.clone()).post(claim).head(head)
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
        .allow_headers(AnyHeader)
        .expose_headers([header::RETRY_AFTER])
        .max_age(Duration::from_hours(1));
    Some(layer)
}

/// The CORS layer takes every OPTIONS for a preflight; others are just another method.
async fn only_preflights(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let is_preflight = headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if request.method() != Method::OPTIONS || is_preflight {
        return next.run(request).await;
    }
    let path = request.uri().path();
    let issues = path.starts_with("/id/") || path.starts_with("/ids/");
    let mut response = method_not_allowed(request).await.into_response();
    let allowed = if issues { "GET,HEAD,POST" } else { "GET,HEAD" };
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

async fn bound_in_flight(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    match state.in_flight.try_acquire() {
        Ok(_permit) => next.run(request).await,
        Err(_) => {
            let detail = format!("{} requests are in flight", state.http.max_in_flight);
            let retry_after = Duration::from_secs(1);
            Problem::passing(ProblemCode::Overloaded, detail, retry_after).into_response()
        }
    }
}

async fn bound_time(State(state): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let limit = state.http.request_timeout;
    tokio::time::timeout(limit, next.run(request)).await.unwrap_or_else(|_| {
        let detail = format!("no answer within {limit:?}");
        Problem::new(ProblemCode::RequestTimeout, detail).into_response()
    })
}

async fn bound_uri(request: Request, next: Next) -> Response {
    let length = request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
    if length > LONGEST_URI {
        let detail = format!("the address has {length} bytes: must be at most {LONGEST_URI}");
        return Problem::new(ProblemCode::UriTooLong, detail).into_response();
    }
    next.run(request).await
}

fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("unknown"), "a handler panicked");
    let detail = "the request met a defect of the service, which was logged";
    Problem::new(ProblemCode::Internal, detail).into_response()
}

async fn not_found(request: Request) -> Problem {
    let detail = format!("there is no route {:?}", request.uri().path());
    Problem::new(ProblemCode::NotFound, detail)
}

async fn method_not_allowed(request: Request) -> Problem {
    let detail = format!("{} is not allowed on {:?}", request.method(), request.uri().path());
    Problem::new(ProblemCode::MethodNotAllowed, detail)
}
