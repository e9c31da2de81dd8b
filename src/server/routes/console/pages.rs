//! `/`, `/docs` and `/console/{file}`: the pages for people, and what they load. The API document
//! leaves them out.

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

/// The console, the API document as a page, or a file that the pages load.
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
