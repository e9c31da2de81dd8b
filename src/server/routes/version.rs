//! `/version`: which build answers.

use axum::{http::StatusCode, response::Response};

use crate::{
    process::build::{BUILD, Build},
    server::response::body::uncached_json,
};

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
