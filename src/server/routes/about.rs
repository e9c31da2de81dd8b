//! What the service says of itself: the API document at `/openapi.json`, the description of a
//! listener that it is made from, and the build at `/version`.

use std::sync::{Arc, OnceLock};

use axum::{
    Extension,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};

use super::{conditional::Document, console::Console};
use crate::{
    process::{BUILD, Build},
    server::{
        audience::{Listener, TokensFor},
        extract::Client,
        response::{Problem, body::uncached_json},
        state::AppState,
    },
};

/// The description of a listener: its API document and its console. Both are built at their first
/// use, because they take more memory than most of the rest.
#[derive(Debug)]
pub(in crate::server) struct About {
    pub(in crate::server) tokens_for: TokensFor,
    /// The paths of the listener's routes.
    pub(in crate::server) paths: Vec<String>,
    /// Builds the API document.
    pub(in crate::server) describe: fn(&AppState, &Self) -> Bytes,
    pub(in crate::server) listener: Listener,
    api: OnceLock<Document>,
    console: OnceLock<Console>,
}

impl About {
    pub(in crate::server) fn new(
        state: &AppState,
        listener: Listener,
        paths: Vec<String>,
        describe: fn(&AppState, &Self) -> Bytes,
    ) -> Self {
        let tokens_for = TokensFor::of(listener, state.auth.is_some());
        let (api, console) = (OnceLock::new(), OnceLock::new());
        Self { tokens_for, paths, describe, listener, api, console }
    }

    pub(in crate::server) fn console(&self, state: &AppState) -> &Console {
        let needs_token = self.tokens_for == TokensFor::Everything;
        self.console.get_or_init(|| Console::new(state, needs_token, &self.paths))
    }
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
    let describe = || Document::new("application/json", (about.describe)(&state, &about));
    let document = about.api.get_or_init(describe);
    document.answer(&client, &headers)
}

/// Which build answers
///
/// The version of the service and the commit from which it was built, as `raindrop version --json`
/// prints them.
#[utoipa::path(
    get,
    path = "/version",
    operation_id = "version",
    responses((status = 200, description = "The build", body = Build)),
)]
pub(in crate::server) async fn version() -> Response {
    uncached_json(StatusCode::OK, &BUILD)
}
