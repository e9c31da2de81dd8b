//! Counts and times requests by their routes.

use std::{
    collections::HashMap,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    extract::{MatchedPath, NestedPath, Request},
    http::{StatusCode, header},
    response::Response,
};
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tower::{Layer, Service, layer::layer_fn};

use crate::server::{
    metrics::{Counted, FORBIDDEN, RouteMetrics},
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
    S: Service<Request, Response = Response<B>, Future: Send + 'static>,
    S::Error: Send,
    B: Send,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<B>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let extensions = request.extensions();
        let path = extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        let path = match extensions.get::<NestedPath>() {
            // Not with an empty text: to compare no bytes nowhere can take a processor 0.1 us.
            Some(nest) => path.map(|path| without_nest(path, nest.as_str())),
            None => path,
        };
        let route = path.and_then(|path| self.routes.by_path.get(path));
        let route = Arc::clone(route.unwrap_or(&self.routes.unmatched));
        let (state, method) = (Arc::clone(&self.routes.state), request.method().clone());
        let in_flight = Counted::new(state.metrics.http.in_flight.clone());
        let (started, response) = (Instant::now(), self.inner.call(request));
        Box::pin(async move {
            let _in_flight = in_flight;
            let response = response.await?;
            route.answered(&method, response.status(), started.elapsed());
            // Only a token that may not do this is told what would be let in.
            let challenge = response.headers().contains_key(header::WWW_AUTHENTICATE);
            if response.status() == StatusCode::FORBIDDEN && challenge {
                state.metrics.auth_refused.with_label_values(&[FORBIDDEN]).inc();
            }
            Ok(response)
        })
    }
}

/// The path of a route of ours, without that of the router of an embedder in which it is nested.
fn without_nest<'a>(path: &'a str, nest: &str) -> &'a str {
    match path.strip_prefix(nest.trim_end_matches('/')) {
        Some("") => "/",
        own => own.unwrap_or(path),
    }
}
