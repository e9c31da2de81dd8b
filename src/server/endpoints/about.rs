//! `/openapi.json`: the API document. And what a listener knows of itself.

use std::sync::{Arc, OnceLock};

use axum::{Extension, extract::State, http::HeaderMap, response::Response};

use crate::server::{
    conditional::Document,
    console::Console,
    extract::Client,
    openapi,
    problem::Problem,
    router::{Listener, PAGES, groups},
    state::AppState,
};

/// What a listener tells of itself. It is made when it is first needed: that takes more memory than
/// much of the rest.
#[derive(Debug)]
pub(in crate::server) struct About {
    listener: Listener,
    api: OnceLock<Document>,
    console: OnceLock<Console>,
}

impl About {
    pub(in crate::server) fn new(listener: Listener) -> Self {
        Self { listener, api: OnceLock::new(), console: OnceLock::new() }
    }

    pub(in crate::server) fn console(&self, state: &AppState) -> &Console {
        self.console.get_or_init(|| {
            let needs_token = state.auth.is_some() && self.listener == Listener::Public;
            Console::new(state, needs_token, &paths(state, self.listener))
        })
    }
}

/// The paths of the routes that this listener serves.
pub(in crate::server) fn paths(state: &AppState, listener: Listener) -> Vec<String> {
    let groups = groups(state, listener).into_iter();
    let paths = groups.flat_map(|group| group.routes.into_openapi().paths.paths.into_keys());
    let pages = PAGES.into_iter().filter(|_| state.http.console).map(str::to_owned);
    paths.chain(pages).collect()
}

/// This document
///
/// OpenAPI 3.1, as this service is configured.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "openapi",
    responses(
        (status = 200, description = "This document", body = Object, headers(("ETag"))),
        (status = 304, description = "The client has it, as `If-None-Match` says.", headers(("ETag"))),
    ),
)]
pub(in crate::server) async fn document(
    State(state): State<Arc<AppState>>,
    Extension(about): Extension<Arc<About>>,
    client: Client,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let document = about.api.get_or_init(|| {
        Document::new("application/json", openapi::document(&state, about.listener))
    });
    document.answer(&state, &client, &headers)
}
