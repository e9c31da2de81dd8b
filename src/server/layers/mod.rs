//! The middleware around every route: tracking, CORS, panics, the gate and a time-out, outermost
//! first.
//!
//! All of it is one future: as a stack of tower layers, axum would box a future for each of them.
//! [`Guarded`] has one function for each step, from the outside in.
//!
//! The order matters. Tracking sees every response, also refusals and panics. CORS headers are on
//! error responses, too, so that pages can read them. The time-out covers the handler only, not the
//! wait for a place in the gate. Limits of connections are not here but in `listener`.
//! tests/http/matrix.rs, cors.rs and properties.rs go through all of it; metrics.rs checks what is
//! counted.

mod browsers;
mod gate;
mod host;

use std::{convert::Infallible, pin::pin, sync::Arc};

use axum::{
    Router,
    extract::Request,
    handler::Handler,
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, Route},
};
use futures_util::future::{Either, FutureExt as _, poll_immediate};
use tokio::time::{Instant, timeout};
use tower::{Service, ServiceExt as _, layer::layer_fn, service_fn};
#[cfg(feature = "otel")]
use tracing::{Instrument as _, field::Empty};

use self::{browsers::Browsers, gate::Rules};
use super::{
    audience::{Audience, Listener},
    metrics::{Counted, FORBIDDEN, RouteMetrics},
    request_log::{Answered, LoggedRequest},
    response::{Problem, ProblemCode},
    state::AppState,
};
use crate::keeper::catch_panic;
#[cfg(feature = "otel")]
use crate::{keeper::SPANS, process::traces};

/// The middleware around the routes of one audience.
#[derive(Debug)]
pub(super) struct Layers {
    state: Arc<AppState>,
    browsers: Option<Browsers>,
    rules: Rules,
}

/// A route or a handler with its middleware.
struct Guarded<S> {
    layers: Arc<Layers>,
    metrics: Arc<RouteMetrics>,
    inner: S,
}

impl Layers {
    /// Creates the middleware of an audience. `is_cached` is `None` if pages of `http.cors_origins`
    /// may not read the responses; otherwise it says whether caches may store them.
    pub(super) fn new(
        state: &Arc<AppState>,
        listener: Listener,
        audience: Audience,
        is_cached: Option<bool>,
    ) -> Arc<Self> {
        let origins = &state.http.cors_origins;
        let browsers = is_cached.and_then(|is_cached| Browsers::new(origins, is_cached));
        let rules = Rules::new(state, listener, audience);
        Arc::new(Self { state: Arc::clone(state), browsers, rules })
    }

    /// Wraps the methods of a path, whose requests these metrics count.
    pub(super) fn around(
        self: &Arc<Self>,
        methods: MethodRouter<Arc<AppState>>,
        metrics: &Arc<RouteMetrics>,
    ) -> MethodRouter<Arc<AppState>> {
        let (layers, metrics) = (Arc::clone(self), Arc::clone(metrics));
        methods.layer(layer_fn(move |route: Route| {
            let guarded = Guarded::new(&layers, &metrics, route);
            service_fn(move |request| Arc::clone(&guarded).trace(request))
        }))
    }

    /// Adds a path whose GET and POST this handler answers, wrapped in the same way, and whose
    /// other methods `others` answers. axum puts the handlers of a [`MethodRouter`] into routes,
    /// which allocate three times for each request, and write the `Content-Length` that hyper would
    /// write; this wraps the handler itself.
    pub(super) fn route_handler<H: Handler<T, Arc<AppState>>, T: 'static>(
        self: &Arc<Self>,
        router: Router<Arc<AppState>>,
        path: &str,
        handler: H,
        others: MethodRouter<Arc<AppState>>,
        metrics: &Arc<RouteMetrics>,
    ) -> Router<Arc<AppState>> {
        let guarded = Guarded::new(self, metrics, handler.with_state(Arc::clone(&self.state)));
        // Behind an `Arc`, too: a clone of it would allocate for each of its methods.
        let others = Arc::new(others.with_state(Arc::clone(&self.state)));
        let answer = move |request: Request| match *request.method() {
            Method::GET | Method::POST => Either::Left(Arc::clone(&guarded).trace(request)),
            _ => Either::Right(MethodRouter::clone(&others).oneshot(request)),
        };
        router.route_service(path, service_fn(answer))
    }
}

impl<S> Guarded<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone,
{
    /// Behind an `Arc`, because axum clones the service for each request.
    fn new(layers: &Arc<Layers>, metrics: &Arc<RouteMetrics>, inner: S) -> Arc<Self> {
        Arc::new(Self { layers: Arc::clone(layers), metrics: Arc::clone(metrics), inner })
    }

    /// Answers a request in a span, if spans are sent.
    #[cfg(feature = "otel")]
    fn trace(
        self: Arc<Self>,
        request: Request,
    ) -> impl Future<Output = Result<Response, Infallible>> {
        if traces::are_sent() {
            // Boxed, so that a request without a span has a smaller future.
            return Either::Left(Box::pin(self.answer_in_span(request)));
        }
        Either::Right(self.answer(request))
    }

    #[cfg(not(feature = "otel"))]
    fn trace(
        self: Arc<Self>,
        request: Request,
    ) -> impl Future<Output = Result<Response, Infallible>> {
        self.answer(request)
    }

    #[cfg(feature = "otel")]
    async fn answer_in_span(self: Arc<Self>, request: Request) -> Result<Response, Infallible> {
        let (name, method) = traces::method_in_spans(request.method());
        let route = self.metrics.path();
        let span = tracing::debug_span!(
            target: SPANS,
            "request",
            otel.name = format_args!("{name} {route}"),
            otel.kind = "server",
            otel.status_code = Empty,
            http.request.method = method,
            http.route = route,
            http.response.status_code = Empty,
        );
        traces::continue_trace(&span, request.headers());
        let Ok(response) = self.answer(request).instrument(span.clone()).await;
        span.record("http.response.status_code", i64::from(response.status().as_u16()));
        if response.status().is_server_error() {
            span.record("otel.status_code", "ERROR");
        }
        traces::end(&span);
        Ok(response)
    }

    /// Counts and times a request, and adds CORS headers if its response needs them.
    async fn answer(self: Arc<Self>, request: Request) -> Result<Response, Infallible> {
        let mut tracked = Tracked::begin(&self.layers.state, &self.metrics, &request);
        let (inner, mut logged) = (&*self, tracked.logged.as_mut());
        let mut response = match &self.layers.browsers {
            Some(browsers) if browsers.need_headers(&request) => {
                let inner = service_fn(|request| {
                    inner.handle(request, logged.take()).map(Ok::<_, Infallible>)
                });
                // Boxed, so that requests without CORS have a smaller future.
                let Ok(response) = Box::pin(browsers.around(inner).oneshot(request)).await;
                response
            }
            _ => inner.handle(request, logged).await,
        };
        tracked.answered(&mut response);
        Ok(response)
    }

    /// Runs the gate, and then the handler with `http.request_timeout`. A panic of either becomes a
    /// 500 response.
    async fn handle(&self, mut request: Request, logged: Option<&mut LoggedRequest>) -> Response {
        // A block, which keeps the request in one place, while a function would have room for it
        // twice: as its argument and as its variable.
        let handled = async move {
            if let Err(problem) = self.layers.rules.pass(&mut request, logged).await {
                return problem.into_response();
            }
            let mut answer = pin!(self.inner.clone().call(request));
            // Most responses are ready at the first poll. They need no timer, which costs more than
            // that poll.
            if let Some(Ok(response)) = poll_immediate(answer.as_mut()).await {
                return response;
            }
            let limit = self.layers.state.http.request_timeout;
            match timeout(limit, answer).await {
                Ok(Ok(response)) => response,
                Err(_) => {
                    let detail = format!("no answer within {limit:?}");
                    Problem::new(ProblemCode::RequestTimeout, detail).into_response()
                }
            }
        };
        // Pinned here, so that `catch_panic` has no room for it a second time.
        catch_panic(pin!(handled)).await.unwrap_or_else(|panic| {
            tracing::error!(panic, "handler panicked");
            let detail = "internal error; see the service's log";
            Problem::new(ProblemCode::Internal, detail).into_response()
        })
    }
}

/// A request in flight, until this is dropped. It begins before every other layer, and refuses
/// nothing.
struct Tracked<'a> {
    state: &'a AppState,
    route: &'a RouteMetrics,
    method: Method,
    began: Instant,
    /// `None` if no request gets a line in the log.
    logged: Option<LoggedRequest>,
    _in_flight: Counted,
}

impl<'a> Tracked<'a> {
    fn begin(state: &'a Arc<AppState>, route: &'a RouteMetrics, request: &Request) -> Self {
        let in_flight = Counted::new(state.metrics.http.in_flight.clone());
        let (method, began) = (request.method().clone(), Instant::now());
        let logged = state.request_log.note(request);
        Self { state, route, method, began, logged, _in_flight: in_flight }
    }

    /// Counts, times and logs the response to the request. A request whose client leaves before
    /// there is a response has no status: it is neither counted, timed nor logged.
    fn answered(&self, response: &mut Response) {
        let (status, took) = (response.status(), self.began.elapsed());
        self.route.answered(&self.method, status, took);
        if let Some(logged) = &self.logged {
            let answered = Answered { method: &self.method, route: self.route.path(), took };
            self.state.request_log.answered(logged, answered, response);
        }
        // Only the 403 for a token without the permission has this challenge. Other 403, such as
        // for a page of another site, are not failures of authentication.
        if status == StatusCode::FORBIDDEN
            && response.headers().contains_key(header::WWW_AUTHENTICATE)
        {
            self.state.metrics.auth_refused.with_label_values(&[FORBIDDEN]).inc();
        }
    }
}
