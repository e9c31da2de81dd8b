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

/// The console, or the API document as a page.
pub(in crate::server) async fn page(
    State(state): State<Arc<AppState>>,
    Extension(about): Extension<Arc<About>>,
    client: Client,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    about.console(&state).answer(&state, &client, uri.path(), &headers)
}

/// A file that the pages load.
pub(in crate::server) async fn file(
    State(state): State<Arc<AppState>>,
    Extension(about): Extension<Arc<About>>,
    client: Client,
    InPath(name): InPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let name = name.unwrap_or_default();
    about.console(&state).answer(&state, &client, &name, &headers)
}
