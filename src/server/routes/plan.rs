//! `/plan`: what a layout offers, and for how long.

use std::sync::Arc;

use axum::{extract::State, response::Response};

use crate::{
    config::FlagValue,
    core::namespace::DEFAULT_NAMESPACE,
    plan::{PLAN_KEYS, Plan, PlanKey},
    server::{
        extract::{Client, Query, invalid},
        openapi::{PlanParameters, names},
        response::{Problem, ProblemCode as P},
        state::AppState,
    },
};

/// The longest value of a parameter in bytes: error texts quote it.
const LONGEST: usize = 64;

/// What a layout offers
///
/// The fields of a layout, when each is used up, and the table that configures it. Without
/// parameters, the layout of the namespace `default`; with some, a layout of these settings and
/// otherwise the defaults.
#[utoipa::path(
    get,
    path = "/plan",
    operation_id = "plan",
    params(PlanParameters),
    responses((status = 200, description = "The keys of `raindrop plan --json`", body = Object)),
    extensions(("x-problems" = json!(names(&[&[P::InvalidParameter, P::NotFound]])))),
)]
pub(in crate::server) async fn plan(
    State(state): State<Arc<AppState>>,
    client: Client,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let mut flags: Vec<FlagValue> = Vec::new();
    for (name, value) in query {
        let Some(PlanKey { parameter, key, .. }) =
            PLAN_KEYS.into_iter().find(|known| known.parameter == name)
        else {
            let known = PLAN_KEYS.map(|known| known.parameter).join(", ");
            return Err(invalid(format!("unknown parameter {name:?}; known are: {known}")));
        };
        if flags.iter().any(|flag| flag.flag == parameter) {
            return Err(invalid(format!("parameter {parameter} is given more than once")));
        }
        if value.len() > LONGEST {
            return Err(invalid(format!("{parameter}: must be at most {LONGEST} bytes long")));
        }
        flags.push(FlagValue { flag: parameter, key, value });
    }
    if !flags.is_empty() {
        let plan = Plan::of_flags(flags).map_err(|error| invalid(error.to_string()))?;
        return client.cached_json(&plan);
    }
    client.caller.check_namespace(DEFAULT_NAMESPACE, None)?;
    let none = || {
        let detail = format!(
            "namespace {DEFAULT_NAMESPACE:?} has no layout; parameters choose one, such as \
             ?preset=raindrop"
        );
        Problem::new(P::NotFound, detail)
    };
    client.cached_json(state.plan.as_ref().ok_or_else(none)?)
}
