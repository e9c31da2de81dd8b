//! The API document (OpenAPI 3.1), put together from what the handlers read and write.

mod about;
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

pub(super) use self::about::{About, Kind, PLAIN_TEXT, shared, with};
use self::{parameters::Parameters, responses::responses};
use super::{
    endpoints::{bounds, document, health, issue, metrics, parse},
    problem::Document,
    router::{MANY, ONE, ROUTES},
    state::AppState,
};

/// What is said of each route.
static ABOUT: [(&str, &About); 9] = [
    (ROUTES[ONE], &issue::ONE),
    (ROUTES[MANY], &issue::MANY),
    ("/parse/{id}", &parse::ABOUT),
    ("/bounds", &bounds::ABOUT),
    ("/health", &health::HEALTH),
    ("/livez", &health::LIVE),
    ("/readyz", &health::READY),
    (METRICS, &metrics::ABOUT),
    ("/openapi.json", &document::ABOUT),
];

/// Operators alone ask for it, where they have a listener of their own.
const METRICS: &str = "/metrics";

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

/// The document of this service, as JSON.
pub(super) fn write(state: &AppState) -> Bytes {
    let parameters = Parameters { max_batch: state.http.max_batch };
    let bearer = SecurityRequirement::new(BEARER, [""; 0]);
    let security = match state.auth {
        Some(_) => vec![bearer],
        None => vec![SecurityRequirement::default(), bearer],
    };
    let mut paths = PathsBuilder::new();
    let is_here = |route| route != METRICS || state.http.admin_listen.is_none();
    for (route, about) in ABOUT.into_iter().filter(|(route, _)| is_here(*route)) {
        paths = paths.path(route, path_item(route, about, &parameters));
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
        .components(Some(components()))
        .build();
    let mut json = serde_json::to_vec_pretty(&document).expect("texts and numbers are always JSON");
    json.push(b'\n');
    json.into()
}

fn path_item(route: &'static str, about: &About, parameters: &Parameters) -> PathItem {
    let mut item = PathItemBuilder::new();
    for method in [HttpMethod::Get, HttpMethod::Head, HttpMethod::Post] {
        if method != HttpMethod::Post || about.kind == Kind::Issues {
            let operation = operation(route, about, &method, parameters);
            item = item.operation(method, operation);
        }
    }
    item.build()
}

fn operation(
    route: &'static str,
    about: &About,
    method: &HttpMethod,
    parameters: &Parameters,
) -> Operation {
    let (verb, description) = match (method, about.kind) {
        (HttpMethod::Get, _) => ("get", about.description),
        (HttpMethod::Post, _) => ("post", about.description),
        (_, Kind::Issues) => ("head", "Checks the request as GET does, and claims nothing."),
        _ => ("head", "GET without its body."),
    };
    let mut operation = OperationBuilder::new()
        .operation_id(Some(format!("{verb}_{}", about.name)))
        .summary(Some(about.summary))
        .description(Some(description))
        .responses(responses(route, about, method));
    if !problems::is_protected(route) {
        operation = operation.securities(Some([]));
    }
    if let Some((_, rest)) = route.split_once('{') {
        operation = operation.parameter(parameters.in_path(rest.trim_end_matches('}')));
    }
    for name in about.parameters {
        // Each answer for a past time is a durable write, which GET must not make.
        if *name != "at" || *method == HttpMethod::Post {
            operation = operation.parameter(parameters.in_query(name, about));
        }
    }
    operation.build()
}

/// The one way to be let in.
const BEARER: &str = "bearer";

fn components() -> Components {
    let mut components = with::<Document<'_>>(ComponentsBuilder::new());
    for (_, about) in ABOUT {
        components = (about.schemas)(components);
    }
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token of `auth.tokens_file`, where that is configured."));
    let bearer = SecurityScheme::Http(bearer.build());
    responses::shared_parts(components).security_scheme(BEARER, bearer).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_of_this_listener_is_told_of() {
        let told = ABOUT.map(|(route, _)| route);
        for route in ROUTES {
            // Of the listener for operators.
            assert_eq!(told.contains(&route), route != "/cluster", "{route}");
        }
        assert!(told.iter().all(|route| ROUTES.contains(route)));
    }
}
