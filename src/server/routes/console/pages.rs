//! `/`, `/docs` and `/console/{file}`: the pages for people and their files, which the API document
//! leaves out.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};

use crate::server::{
    extract::{Client, InPath},
    response::Problem,
    routes::about::About,
    state::AppState,
};

/// Answers with the console, the API document as a page, or a file of these.
pub(in crate::server) async fn page(
    State(state): State<Arc<AppState>>,
    Extension(about): Extension<Arc<About>>,
    client: Client,
    InPath(file): InPath,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    about.console(&state).answer(&client, file.as_deref().unwrap_or(uri.path()), &headers)
}
