//! Every route and every layer: the table of contents of the service.

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::Bytes,
    error_handling::HandleErrorLayer,
    extract::State,
    http::{Method, Uri},
    routing::get,
};
use tower::{BoxError, ServiceBuilder};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::server::{
    audience::{Audience, Listener},
    layers::{browsers, gate, panicked, too_late, track},
    openapi,
    response::{Problem, ProblemCode},
    routes::{
        about::{self, About},
        bounds, cluster, codes, console, health, ids, metrics, parse, plan,
    },
    state::AppState,
};

/// The pages for people and what they load, which the API document leaves out.
const PAGES: [&str; 3] = ["/", "/docs", "/console/{file}"];

/// Routes that the same audience may use.
struct Group {
    audience: Audience,
    routes: OpenApiRouter<Arc<AppState>>,
    /// Whether caches keep the answers, where pages of `http.cors_origins` may read them.
    cors: Option<bool>,
}

/// The routes of a listener, by audience.
fn groups(state: &AppState, listener: Listener) -> Vec<Group> {
    let is_public = listener == Listener::Public;
    let has_own_listener = state.http.admin_listen.is_some();
    let (cached, uncached) = (is_public.then_some(true), is_public.then_some(false));
    let group = |audience, cors, routes| Group { audience, routes, cors };
    let new = OpenApiRouter::new;

    let ids = new().routes(routes!(ids::one)).routes(routes!(ids::many));
    let bounds = new().routes(routes!(bounds::bounds));
    let texts = new().routes(routes!(parse::parse)).routes(routes!(plan::plan));
    let metrics = new().routes(routes!(metrics::metrics));
    let operators = new()
        .routes(routes!(cluster::cluster))
        .routes(routes!(cluster::release))
        .routes(routes!(codes::list))
        .routes(routes!(codes::get, codes::put, codes::patch))
        .routes(routes!(codes::raise))
        .routes(routes!(codes::retire));
    let probes = new().routes(routes!(health::live)).routes(routes!(health::ready));
    let health = new().routes(routes!(health::health));
    let document = new().routes(routes!(about::document));

    let mut groups = vec![
        group(Audience::Clients, cached, texts),
        group(Audience::TokenHolders, cached, document),
        group(Audience::TokenHolders, None, health),
        group(Audience::Anybody, None, probes),
        group(Audience::TokenHolders, None, new().fallback(no_route)),
    ];
    if is_public {
        groups.push(group(Audience::Clients, uncached, ids));
        groups.push(group(Audience::Clients, cached, bounds));
    }
    // Where operators have no listener, whoever may reach this one may scrape it.
    if !is_public || !has_own_listener {
        groups.push(group(Audience::Scrapers, None, metrics));
    }
    // Without tokens nobody is known as an operator here.
    if !is_public || state.auth.is_some() {
        groups.push(group(Audience::Operators, None, operators));
    }
    if state.http.console {
        let page = |pages: OpenApiRouter<_>, path| pages.route(path, get(console::page));
        let pages = PAGES.into_iter().fold(new(), page);
        groups.push(group(Audience::Anybody, None, pages));
    }
    groups
}

/// The whole service as a router: the one that [`serve`](crate::server::service::serve()) serves, to be served by
/// whatever you like, or nested in one of your own. It knows clients by their addresses only if
/// their requests have a [`ConnectInfo`](axum::extract::ConnectInfo) of a socket address.
pub fn router(state: Arc<AppState>) -> Router {
    of_listener(&state, Listener::Public)
}

/// The routes of a listener with every layer.
pub(super) fn of_listener(state: &Arc<AppState>, listener: Listener) -> Router {
    let paths = paths(state, listener);
    let track = track(state, &paths);
    let about = Arc::new(About::new(state, listener, paths, describe));
    let time_limit = state.http.request_timeout;
    let in_time = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(move |_: BoxError| async move { too_late(time_limit) }))
        .timeout(time_limit)
        .into_inner();
    let mut router = Router::new();
    for Group { audience, routes, cors } in groups(state, listener) {
        let (routes, _) = routes.split_for_parts();
        let layers = ServiceBuilder::new()
            .layer(track.clone())
            .option_layer(cors.and_then(|is_cached| browsers(&state.http.cors_origins, is_cached)))
            .layer(CatchPanicLayer::custom(panicked))
            .layer(gate(state, listener, audience))
            .layer(in_time.clone())
            .option_layer((audience != Audience::Clients).then(|| Extension(Arc::clone(&about))));
        router = router.merge(routes.method_not_allowed_fallback(no_method).layer(layers));
    }
    router.with_state(Arc::clone(state))
}

/// The paths of the routes that this listener serves.
fn paths(state: &AppState, listener: Listener) -> Vec<String> {
    let groups = groups(state, listener).into_iter();
    let paths = groups.flat_map(|group| group.routes.into_openapi().paths.paths.into_keys());
    let pages = PAGES.into_iter().filter(|_| state.http.console).map(str::to_owned);
    paths.chain(pages).collect()
}

/// The API document of a listener.
fn describe(state: &AppState, about: &About) -> Bytes {
    let groups = groups(state, about.listener).into_iter();
    let routes = groups.map(|group| (group.audience, group.routes.into_openapi()));
    openapi::document(routes, about.tokens_for, &state.http)
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{method} is not allowed on {:?}", uri.path());
    Problem::new(ProblemCode::MethodNotAllowed, detail)
}

/// The problem of a path without a route here, which says where it has one.
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
        | ["codes", _, "raise" | "retire"] => match state.http.admin_listen {
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
