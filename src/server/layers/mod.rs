//! What stands around a route, in one future: counting, browsers, panics, the gate, and a time-out,
//! outermost first.

mod browsers;
mod gate;
mod host;
mod track;

use std::{convert::Infallible, pin::pin, sync::Arc};

use axum::{
    extract::Request,
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, Route},
};
use futures_util::future::{FutureExt as _, poll_immediate};
use tokio::time::timeout;
use tower::{Service as _, ServiceExt as _, layer::layer_fn, service_fn};

use self::{browsers::Browsers, gate::Rules, track::Tracked};
use super::{
    audience::{Audience, Listener},
    metrics::RouteMetrics,
    response::{Problem, ProblemCode},
    state::AppState,
};
use crate::keeper::catch_panic;

/// What stands around the routes of one audience.
#[derive(Debug)]
pub(super) struct Layers {
    state: Arc<AppState>,
    browsers: Option<Browsers>,
    rules: Rules,
}

/// A route, and what stands around it.
struct Guarded {
    layers: Arc<Layers>,
    metrics: Arc<RouteMetrics>,
    route: Route,
}

impl Layers {
    /// Creates the layers of an audience. `is_cached` says whether caches keep the answers, where pages
    /// of `http.cors_origins` may read them.
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

    /// Puts the layers around the methods of a path, which has these metrics.
    pub(super) fn around(
        self: &Arc<Self>,
        methods: MethodRouter<Arc<AppState>>,
        metrics: &Arc<RouteMetrics>,
    ) -> MethodRouter<Arc<AppState>> {
        let (layers, metrics) = (Arc::clone(self), Arc::clone(metrics));
        methods.layer(layer_fn(move |route| {
            let (layers, metrics) = (Arc::clone(&layers), Arc::clone(&metrics));
            // Behind one pointer, since axum clones the service for each request.
            let guarded = Arc::new(Guarded { layers, metrics, route });
            service_fn(move |request| Arc::clone(&guarded).answer(request))
        }))
    }
}

impl Guarded {
    /// Counts and times a request, and adds what browsers need.
    async fn answer(self: Arc<Self>, request: Request) -> Result<Response, Infallible> {
        let tracked = Tracked::begin(&self.layers.state, &self.metrics, &request);
        let inner = &*self;
        let response = match &self.layers.browsers {
            Some(browsers) if browsers.need_headers(&request) => {
                let inner = service_fn(|request| inner.survive(request).map(Ok::<_, Infallible>));
                // Boxed, so that other requests take less memory.
                let Ok(response) = Box::pin(browsers.around(inner).oneshot(request)).await;
                response
            }
            _ => inner.survive(request).await,
        };
        tracked.answered(&response);
        Ok(response)
    }

    /// Answers a panic with 500.
    async fn survive(&self, request: Request) -> Response {
        // Pinned here: otherwise the future, which is moved until it is polled, has room for it twice.
        catch_panic(pin!(self.admit(request))).await.unwrap_or_else(|panic| {
            tracing::error!(panic, "handler panicked");
            let detail = "internal error; see the service's log";
            Problem::new(ProblemCode::Internal, detail).into_response()
        })
    }

    /// Answers a request that may pass, in time.
    async fn admit(&self, mut request: Request) -> Response {
        if let Err(problem) = self.layers.rules.pass(&mut request).await {
            return problem.into_response();
        }
        let mut answer = pin!(self.route.clone().call(request));
        // Most are ready at once, and need no timer.
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
    }
}
