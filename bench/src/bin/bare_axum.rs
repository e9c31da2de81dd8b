//! An axum service that responds with constants: the cost of HTTP without Raindrop.

use std::{env::args, error::Error};

use axum::{
    Router,
    body::Bytes,
    http::{HeaderValue, header},
    routing::get,
    serve::{self, ListenerExt as _},
};
use raindrop_bench::bare_server::{COPIED, parse};
use tokio::net::TcpListener;

/// As in Raindrop: a multi-threaded runtime, TCP_NODELAY, and responses without a copy. Below
/// [`COPIED`] each response is copied first: the least that responses with new content cost.
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (address, constants) = parse(args())?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    let mut router = Router::new();
    for (path, body) in constants {
        let (headers, body) = (headers.clone(), Bytes::from(body));
        let copied = (headers.clone(), body.clone());
        let copied = get(async move || (copied.0.clone(), Bytes::copy_from_slice(&copied.1)));
        router = router.route(&format!("{COPIED}{path}"), copied);
        router = router.route(&path, get(async move || (headers.clone(), body.clone())));
    }
    let listener = TcpListener::bind(address).await?;
    let listener = listener.tap_io(|stream| {
        // Otherwise responses can wait for the client's acknowledgements.
        let _ = stream.set_nodelay(true);
    });
    Ok(serve::serve(listener, router).await?)
}
