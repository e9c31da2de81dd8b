//! The API document (OpenAPI 3.1), made from the table of routes.

mod parameters;
mod problems;
mod responses;

use axum::body::Bytes;
use utoipa::openapi::{
    Components, ComponentsBuilder, HttpMethod, InfoBuilder, LicenseBuilder, OpenApiBuilder,
    PathItem, PathsBuilder, Server,
    path::{Operation, OperationBuilder, PathItemBuilder},
    security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
};

use self::{parameters::Parameters, responses::responses};
use super::{
    problem::Document,
    route::{Kind, Route, with_schema},
    state::AppState,
};

const DESCRIPTION: &str = "\
Unique, time-ordered 64-bit IDs.

- An ID is unique in its namespace and code.
- Every error is a problem document (RFC 9457); programs tell errors apart by `code`.
- An unknown query parameter, or one that is given twice, is an error.
- Any other path is answered 404 `not_found`, and a method that a path does not have 405 \
`method_not_allowed` with the header `Allow`.
- `http.admin_listen`, where it is configured, serves operators, with `/cluster` beside what is \
described here.
- Browsers may call `/id`, `/ids`, `/parse` and `/bounds` from the origins of `http.cors_origins`.";

/// The document of a service with these routes, as JSON.
pub(super) fn document(state: &AppState, routes: &[&Route]) -> Bytes {
    let parameters = Parameters { max_batch: state.http.max_batch };
    let bearer = SecurityRequirement::new(BEARER, [""; 0]);
    let security = match state.auth {
        Some(_) => vec![bearer],
        None => vec![SecurityRequirement::default(), bearer],
    };
    let mut paths = PathsBuilder::new();
    for route in routes {
        paths = paths.path(route.path, path_item(route, &parameters));
    }
    let license = LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0"));
    let info = InfoBuilder::new()
        .title("Raindrop")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION))
        .license(Some(license.build()));
    let document = OpenApiBuilder::new()
        .info(info)
        .servers(Some([Server::new("/")]))
        .paths(paths)
        .security(Some(security))
        .components(Some(components(routes)))
        .build();
    let mut json = serde_json::to_vec_pretty(&document).expect("texts and numbers are always JSON");
    json.push(b'\n');
    json.into()
}

fn path_item(route: &Route, parameters: &Parameters) -> PathItem {
    let mut item = PathItemBuilder::new();
    for method in [HttpMethod::Get, HttpMethod::Head, HttpMethod::Post] {
        if method != HttpMethod::Post || route.kind == Kind::Claim {
            let operation = operation(route, &method, parameters);
            item = item.operation(method, operation);
        }
    }
    item.build()
}

fn operation(route: &Route, method: &HttpMethod, parameters: &Parameters) -> Operation {
    let (verb, description) = match (method, route.kind) {
        (HttpMethod::Get, _) => ("get", route.description),
        (HttpMethod::Post, _) => ("post", route.description),
        (_, Kind::Claim) => ("head", "Checks the request as GET does, and claims nothing."),
        _ => ("head", "GET without its body."),
    };
    let mut operation = OperationBuilder::new()
        .operation_id(Some(format!("{verb}_{}", route.name)))
        .summary(Some(route.summary))
        .description(Some(description))
        .responses(responses(route, method));
    if !route.needs_token {
        operation = operation.securities(Some([]));
    }
    if let Some((_, rest)) = route.path.split_once('{') {
        operation = operation.parameter(parameters.in_path(rest.trim_end_matches('}')));
    }
    for name in route.parameters {
        // Each response for a past time costs a durable write, which GET must not make.
        if *name != "at" || *method == HttpMethod::Post {
            operation = operation.parameter(parameters.in_query(name, route));
        }
    }
    operation.build()
}

/// The name of the one way to authenticate.
const BEARER: &str = "bearer";

fn components(routes: &[&Route]) -> Components {
    let with_schemas = |components, route: &&Route| (route.schemas)(components);
    let components =
        routes.iter().fold(with_schema::<Document<'_>>(ComponentsBuilder::new()), with_schemas);
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token of `auth.tokens_file`, where that is configured."));
    let bearer = SecurityScheme::Http(bearer.build());
    responses::shared_parts(components).security_scheme(BEARER, bearer).build()
}
