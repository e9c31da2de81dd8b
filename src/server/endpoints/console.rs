//! `/`, `/docs` and `/console/{file}`: the pages for people, and what they load.

use crate::server::route::{Handler, Kind, Listener, Route};

/// The console.
pub(in crate::server) static HOME: Route = Route {
    summary: "The console",
    kind: Kind::Page,
    listener: Listener::Both,
    // A browser has none until a person gives one to the page.
    needs_token: false,
    ..Route::new("/", Handler::Console)
};

/// The API document as a page.
pub(in crate::server) static DOCS: Route =
    Route { path: "/docs", summary: "The API document as a page", ..HOME };

/// What the pages load.
pub(in crate::server) static FILE: Route =
    Route { path: "/console/{file}", summary: "A file of the console", ..HOME };
