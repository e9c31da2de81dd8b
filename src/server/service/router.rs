//! Every route and every layer: the table of contents of the service.

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::Bytes,
    extract::State,
    http::{Method, Uri},
    routing::{any, get},
};
use utoipa::openapi::Paths;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouter},
    routes,
};

use crate::server::{
    audience::{Audience, Listener},
    layers::Layers,
    openapi,
    response::{Problem, ProblemCode},
    routes::{
        about::{self, About},
        bounds, cluster, codes, console, health, ids, log, metrics, parse, plan,
    },
    state::AppState,
};

/// The pages for people and the files that they load, which the API document leaves out.
const PAGES: [&str; 3] = ["/", "/docs", "/console/{file}"];

/// A path, with its methods and their part of the API document.
type Endpoint = (String, UtoipaMethodRouter<Arc<AppState>>);

/// Routes of the same audience.
struct Group {
    audience: Audience,
    endpoints: Vec<Endpoint>,
    /// Whether caches may store the responses; `None` if pages of `http.cors_origins` may not read
    /// them.
    cors: Option<bool>,
}

/// Returns the routes of a listener, grouped by audience: the table of contents of the service.
fn groups(state: &AppState, listener: Listener) -> Vec<Group> {
    let is_public = listener == Listener::Public;
    let has_own_listener = state.http.admin_listen.is_some();
    let (cached, uncached) = (is_public.then_some(true), is_public.then_some(false));
    let group = |audience, cors, endpoints| Group { audience, endpoints, cors };

    let ids = described([routes!(ids::one), routes!(ids::many)]);
    let bounds = described([routes!(bounds::bounds)]);
    let texts = described([routes!(parse::parse), routes!(plan::plan)]);
    let metrics = described([routes!(metrics::metrics)]);
    let operators = described([
        routes!(cluster::cluster),
        routes!(cluster::release),
        routes!(codes::list),
        routes!(codes::get, codes::put, codes::patch),
        routes!(codes::raise),
        routes!(codes::retire),
        routes!(log::get, log::put),
    ]);
    let probes = described([routes!(health::live), routes!(health::ready)]);
    let health = described([routes!(health::health), routes!(about::version)]);
    let document = described([routes!(about::document)]);

    let mut groups = vec![
        group(Audience::Clients, cached, texts),
        group(Audience::TokenHolders, cached, document),
        group(Audience::TokenHolders, None, health),
        group(Audience::Anybody, None, probes),
    ];
    if is_public {
        groups.push(group(Audience::Clients, uncached, ids));
        groups.push(group(Audience::Clients, cached, bounds));
    }
    // Without a listener for operators, Prometheus scrapes the public one.
    if !is_public || !has_own_listener {
        groups.push(group(Audience::Scrapers, None, metrics));
    }
    // On the public listener, only a token identifies an operator.
    if !is_public || state.auth.is_some() {
        groups.push(group(Audience::Operators, None, operators));
    }
    if state.http.console {
        let page = || (Vec::new(), Paths::new(), get(console::page));
        let pages = PAGES.map(|path| (path.to_owned(), page())).into();
        groups.push(group(Audience::Anybody, None, pages));
    }
    groups
}

/// Takes the path of each endpoint from its description.
fn described<const N: usize>(all: [UtoipaMethodRouter<Arc<AppState>>; N]) -> Vec<Endpoint> {
    let path = |paths: &Paths| paths.paths.keys().next().expect("a path is described").clone();
    all.map(|endpoint| (path(&endpoint.1), endpoint)).into()
}

/// Returns the whole service as a router, as [`serve`](crate::server::service::serve()) serves it.
/// Serve it yourself, or nest it in a router of your own. It knows clients by their addresses only
/// if requests have a [`ConnectInfo`](axum::extract::ConnectInfo) of a socket address.
pub fn router(state: Arc<AppState>) -> Router {
    of_listener(&state, Listener::Public)
}

/// Builds the router of a listener, with the middleware around each route.
pub(super) fn of_listener(state: &Arc<AppState>, listener: Listener) -> Router {
    let metrics = &state.metrics.http;
    let about = Arc::new(About::new(state, listener, paths(state, listener), describe));
    let mut router = Router::new();
    for Group { audience, endpoints, cors } in groups(state, listener) {
        let layers = Layers::new(state, listener, audience, cors);
        for (path, (_, _, methods)) in endpoints {
            let of_route = metrics.route(&path, "200");
            let mut methods = methods.fallback(no_method);
            if audience != Audience::Clients {
                methods = methods.layer(Extension(Arc::clone(&about)));
            }
            let methods = layers.around(methods, &of_route);
            router = match &*path {
                // Most requests take these two.
                "/id/{code}" => layers.route_handler(router, &path, ids::one, methods, &of_route),
                "/ids/{code}" => layers.route_handler(router, &path, ids::many, methods, &of_route),
                _ => router.route(&path, methods),
            };
        }
    }
    let unmatched = metrics.route("<unmatched>", "404");
    let layers = Layers::new(state, listener, Audience::TokenHolders, None);
    let no_route = layers.around(any(no_route), &unmatched);
    let router = router.with_state(Arc::clone(state));
    router.fallback_service(no_route.with_state(Arc::clone(state)))
}

/// Returns the paths of the routes that this listener serves.
fn paths(state: &AppState, listener: Listener) -> Vec<String> {
    let endpoints = groups(state, listener).into_iter().flat_map(|group| group.endpoints);
    endpoints.map(|(path, _)| path).collect()
}

/// Builds the API document of a listener.
fn describe(state: &AppState, about: &About) -> Bytes {
    let routes = groups(state, about.listener).into_iter().map(|group| {
        let endpoints = group.endpoints.into_iter();
        let described = |all: OpenApiRouter<_>, (_, endpoint)| all.routes(endpoint);
        (group.audience, endpoints.fold(OpenApiRouter::new(), described).into_openapi())
    });
    openapi::document(routes, about.tokens_for, &state.http)
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{method} is not allowed on {:?}", uri.path());
    Problem::new(ProblemCode::MethodNotAllowed, detail)
}

/// Answers a path without a route on this listener, and says where it is served, if anywhere.
async fn no_route(State(state): State<Arc<AppState>>, uri: Uri) -> Problem {
    let path = uri.path();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let elsewhere = match *parts {
        ["id" | "ids"] | ["id" | "ids", ""] => ": a code follows, as in /id/order",
        ["parse"] | ["parse", ""] => ": an ID follows, as in /parse/249679838552547328",
        [_, .., ""] => ": no route ends with a slash",
        _ if path != "/" && parts.contains(&"") => "",
        [""] | ["docs"] | ["console", _] => ": http.console is false",
        ["id" | "ids", _] | ["bounds"] => " on this listener: it is served on http.listen",
        ["metrics"]
        | ["cluster"]
        | ["cluster", "release"]
        | ["codes"]
        | ["codes", _]
        | ["codes", _, "raise" | "retire"]
        | ["log"] => match state.http.admin_listen {
            Some(_) => " on this listener: it is served on http.admin_listen",
            None => {
                ": it needs http.admin_listen, or auth.tokens_file and a token with the permission \
                 admin"
            }
        },
        _ => "",
    };
    Problem::new(ProblemCode::NotFound, format!("there is no route {path:?}{elsewhere}"))
}
