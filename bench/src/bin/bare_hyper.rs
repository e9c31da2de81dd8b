//! A service of hyper alone that responds with constants: the cost of HTTP without axum.

use std::{collections::BTreeMap, convert::Infallible, env::args, error::Error, sync::Arc};

use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use raindrop_bench::bare_server::parse;
use tokio::net::TcpListener;

type Bodies = BTreeMap<String, Bytes>;

/// As in Raindrop: a multi-threaded runtime, TCP_NODELAY, and responses without a copy.
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (address, constants) = parse(args())?;
    let bodies = constants.into_iter().map(|(path, body)| (path, Bytes::from(body)));
    let bodies: Arc<Bodies> = Arc::new(bodies.collect());
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let bodies = Arc::clone(&bodies);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let response = respond(&bodies, &request);
                async { Ok::<_, Infallible>(response) }
            });
            // The load generator closes its connections at the end of a round.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn respond(bodies: &Bodies, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let Some(body) = bodies.get(request.uri().path()) else {
        let mut response = Response::new(Full::default());
        *response.status_mut() = hyper::StatusCode::NOT_FOUND;
        return response;
    };
    let mut response = Response::new(Full::new(body.clone()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
