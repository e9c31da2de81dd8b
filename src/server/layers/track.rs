//! Counts and times requests by their routes.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    extract::{MatchedPath, Request},
    http::{Method, StatusCode, header},
    response::Response,
};
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::{Layer, Service, layer::layer_fn};

use crate::server::{
    metrics::{Counted, RouteMetrics},
    state::AppState,
};

/// Counts and times requests by these paths, which are exported from the start.
pub(in crate::server) fn track<S>(
    state: &Arc<AppState>,
    paths: &[String],
) -> impl Layer<S, Service = Track<S>> + Clone + use<S> {
    let metrics = &state.metrics.http;
    let route = |path: &String| (path.clone(), metrics.route(path, "200"));
    let by_path = paths.iter().map(route).collect();
    let unmatched = metrics.route("<unmatched>", "404");
    let routes = Arc::new(Routes { by_path, unmatched, state: Arc::clone(state) });
    layer_fn(move |inner| Track { inner, routes: Arc::clone(&routes) })
}

#[derive(Debug)]
struct Routes {
    state: Arc<AppState>,
    by_path: HashMap<String, Arc<RouteMetrics>>,
    /// Of requests that match no route.
    unmatched: Arc<RouteMetrics>,
}

#[derive(Clone, Debug)]
pub(in crate::server) struct Track<S> {
    inner: S,
    routes: Arc<Routes>,
}

impl<S, B> Service<Request> for Track<S>
where
    S: Service<Request, Response = Response<B>>,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = TrackedResponse<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let path = request.extensions().get::<MatchedPath>();
        let route = path.and_then(|path| self.routes.by_path.get(path.as_str()));
        TrackedResponse {
            route: Arc::clone(route.unwrap_or(&self.routes.unmatched)),
            method: request.method().clone(),
            started: Instant::now(),
            _in_flight: Counted::new(self.routes.state.metrics.http.in_flight.clone()),
            routes: Arc::clone(&self.routes),
            response: self.inner.call(request),
        }
    }
}

pin_project! {
    pub(in crate::server) struct TrackedResponse<F> {
        #[pin]
        response: F,
        route: Arc<RouteMetrics>,
        method: Method,
        started: Instant,
        _in_flight: Counted,
        routes: Arc<Routes>,
    }
}

impl<F, B, E> Future for TrackedResponse<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(context));
        if let Ok(response) = &response {
            this.route.answered(this.method, response.status(), this.started.elapsed());
            // Only a token that may not do this is told what would be let in.
            let challenge = response.headers().contains_key(header::WWW_AUTHENTICATE);
            if response.status() == StatusCode::FORBIDDEN && challenge {
                this.routes.state.metrics.forbidden();
            }
        }
        Poll::Ready(response)
    }
}
