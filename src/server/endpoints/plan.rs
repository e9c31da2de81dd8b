//! `/plan`: what a layout offers, and for how long.

use axum::http::Response;

use crate::{
    config::FlagValue,
    core::namespace::DEFAULT_NAMESPACE,
    server::{
        auth::Permission,
        body::{self, ResponseBody},
        params::{Params, invalid},
        plan::{PLAN_KEYS, Plan, PlanKey},
        problem::{Problem, ProblemCode as P},
        route::{Call, Handler, Listener, Route, schema_ref, schemas_of},
    },
};

/// The most bytes of a parameter: errors repeat it.
const LONGEST: usize = 64;

const PARAMETERS: [&str; PLAN_KEYS.len()] = {
    let mut names = [""; PLAN_KEYS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = PLAN_KEYS[index].parameter;
        index += 1;
    }
    names
};

pub(in crate::server) static ROUTE: Route = Route {
    summary: "What a layout offers",
    description: "The fields of a layout, when each is used up, and the table that configures it. \
                  Without parameters, the layout of the namespace `default`; with some, a layout \
                  of these settings and otherwise the defaults.",
    listener: Listener::Both,
    permission: Some(Permission::Ids),
    is_for_clients: true,
    parameters: &PARAMETERS,
    content: &[("application/json", || schema_ref("Plan"))],
    schemas: schemas_of::<Plan>,
    problems: &[P::InvalidParameter, P::Forbidden, P::NotFound],
    ..Route::new("/plan", Handler::Ready(plan))
};

/// Answers the facts of a layout.
fn plan(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    let params = Params::read(&call.head.uri, call.route.parameters)?;
    let mut flags = Vec::new();
    for PlanKey { parameter, key, .. } in PLAN_KEYS {
        let Some(value) = params.get(parameter) else { continue };
        if value.len() > LONGEST {
            return Err(invalid(format!("{parameter}: must be at most {LONGEST} bytes long")));
        }
        flags.push(FlagValue { flag: parameter, key, value: value.to_owned() });
    }
    if !flags.is_empty() {
        let plan = Plan::of_flags(flags).map_err(|error| invalid(error.to_string()))?;
        return Ok(body::json(&plan));
    }
    call.caller.check_namespace(DEFAULT_NAMESPACE, None)?;
    let none = || {
        let detail = format!(
            "namespace {DEFAULT_NAMESPACE:?} has no layout; parameters choose one, such as \
             ?preset=raindrop"
        );
        Problem::new(P::NotFound, detail)
    };
    Ok(body::json(call.state.plan.as_ref().ok_or_else(none)?))
}
