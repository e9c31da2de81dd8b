//! `/log`: the level of the log, which operators can change for a time.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, http::StatusCode, response::Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    config::{DURATION_FORM, LOG_LEVELS, parse_duration},
    core::instant::{format_unix_ms, millis},
    process::log_level::{LogLevel, PresentLevel},
    server::{
        extract::{Client, NoBody, Query, invalid, parse},
        openapi::names,
        response::{Problem, ProblemCode as P, body::uncached_json},
        state::AppState,
    },
};

/// The longest time for which a level may be changed.
const LONGEST: Duration = Duration::from_hours(24);

const SHORTEST: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct LevelQuery {
    /// The level: `off`, `error`, `warn`, `info`, `debug` or `trace`.
    #[param(value_type = String, example = "debug")]
    level: Option<String>,
    /// For how long, from `1s` to `24h`.
    #[serde(rename = "for")]
    #[param(value_type = String, example = "10m")]
    duration: Option<String>,
}

/// The level of the log.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub(crate) struct LevelDocument {
    /// The level in force.
    #[schema(example = "debug")]
    pub(crate) level: String,
    /// The level of the configuration.
    #[schema(example = "info")]
    pub(crate) configured: String,
    /// When the configured level comes back; absent while it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    pub(crate) until: Option<String>,
}

impl From<PresentLevel> for LevelDocument {
    fn from(present: PresentLevel) -> Self {
        Self {
            level: present.level.to_owned(),
            configured: present.configured.to_owned(),
            until: present.until_ms.map(format_unix_ms),
        }
    }
}

/// The level of the log
#[utoipa::path(
    get,
    path = "/log",
    operation_id = "log",
    responses((status = 200, description = "The level of the log", body = LevelDocument)),
    extensions(("x-problems" = json!(names(&[&[P::NotFound]])))),
)]
pub(in crate::server) async fn get(
    State(state): State<Arc<AppState>>,
    client: Client,
) -> Result<Response, Problem> {
    client.json(StatusCode::OK, &LevelDocument::from(log_of(&state)?.present()))
}

/// The level of the log
///
/// Changes the level of this node's log for a time. Then the configured level comes back by itself;
/// so it does at a restart. A later change replaces an earlier one, with its end.
#[utoipa::path(
    put,
    path = "/log",
    operation_id = "log",
    params(LevelQuery),
    responses((status = 200, description = "The level of the log", body = LevelDocument)),
    extensions(("x-problems" = json!(names(&[
        &[P::InvalidParameter, P::NotFound, P::UnsupportedMediaType],
    ])))),
)]
pub(in crate::server) async fn put(
    State(state): State<Arc<AppState>>,
    client: Client,
    Query(query): Query<LevelQuery>,
    _: NoBody,
) -> Result<Response, Problem> {
    let level_named = |text: &str| LOG_LEVELS.into_iter().find(|level| *level == text);
    let levels = || format!("one of {}", LOG_LEVELS.join(", "));
    let level = parse("level", query.level.as_deref(), levels, level_named)?;
    let level = level.ok_or_else(|| invalid(format!("level: must be given, {}", levels())))?;
    let form = || format!("{DURATION_FORM}, from 1s to 24h");
    let duration_of = |text: &str| {
        parse_duration(text).filter(|duration| (SHORTEST..=LONGEST).contains(duration))
    };
    let duration = parse("for", query.duration.as_deref(), form, duration_of)?;
    let duration = duration.ok_or_else(|| invalid(format!("for: must be given, {}", form())))?;
    let log = log_of(&state)?;
    let until_ms = state.clock.now_ms().saturating_add(millis(duration));
    let by = client.caller.name().unwrap_or("an operator");
    log.set_for(level, duration, until_ms, by);
    // No reservation: the response is small, and a refusal would make a completed change look
    // failed.
    Ok(uncached_json(StatusCode::OK, &LevelDocument::from(log.present())))
}

fn log_of(state: &AppState) -> Result<&LogLevel, Problem> {
    let detail = "this service runs in a program that has a log of its own";
    state.log_level.as_ref().ok_or_else(|| Problem::new(P::NotFound, detail))
}
