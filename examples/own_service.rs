//! Issues IDs inside your own axum service. A background task leases a worker id from a SQLite file
//! and renews the lease; handlers issue IDs without querying the file.
//!
//! ```text
//! cargo run --example own_service -- 127.0.0.1:8080 /var/lib/orders
//! ```
//!
//! The default address has a free port, and the default folder is a temporary one. The program sends
//! itself one request, prints the response and stops; a real service would run until a signal.

#![expect(clippy::print_stdout, reason = "a program that prints IDs")]

use std::{error::Error, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::post,
};
use raindrop::{
    core::{clock::SystemClock, preset::Preset},
    keeper::{IssueError, Issuer, Keeper, KeeperSettings, NoObserver, Released},
    store::{StoreSettings, connect},
};
use tokio::{net::TcpListener, sync::oneshot};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let temporary = tempfile::tempdir()?;
    let folder = arguments.next().map_or_else(|| temporary.path().to_owned(), PathBuf::from);

    // Bind first, so that a port in use fails before the keeper takes a lease.
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;

    let clock = Arc::new(SystemClock::default());
    let url = format!("sqlite://{}", folder.join("ids.db").display());
    let store = connect(&StoreSettings::new(url), clock.clone())?;
    let settings = KeeperSettings::new(Preset::Raindrop.spec().build()?, "orders");
    let (mut keeper, issuer) = Keeper::start(settings, store.clone(), clock, Arc::new(NoObserver));
    tokio::select! {
        _ = issuer.leased() => {}
        error = keeper.failed() => return Err(error.into()),
    }

    let orders = Router::new().route("/orders/{count}", post(new_orders)).with_state(issuer);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, orders).with_graceful_shutdown(async {
        // A dropped sender stops the server too.
        stopped.await.ok();
    });
    let client = async {
        let answer = ask(address).await;
        drop(stop);
        answer
    };
    let (served, answer) = tokio::join!(server.into_future(), client);

    // Once no handler runs any more: frees the worker id for the next start.
    let released = keeper.release(Duration::from_secs(10)).await;
    store.close().await;

    served?;
    println!("{}", answer?);
    match released {
        Released::Done => Ok(()),
        other => Err(format!("the worker id stays held until its ttl expires: {other:?}").into()),
    }
}

/// Creates orders and returns their IDs, one per line.
async fn new_orders(
    State(issuer): State<Issuer>,
    Path(count): Path<u32>,
) -> Result<String, (StatusCode, String)> {
    let ids = issuer.next_ids("order", count).await.map_err(|error| {
        let status = match error {
            IssueError::NoLease { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        (status, error.to_string())
    })?;
    Ok(ids.map(|id| id.to_string()).collect::<Vec<_>>().join("\n"))
}

async fn ask(address: SocketAddr) -> reqwest::Result<String> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.post(format!("http://{address}/orders/10")).send().await?;
    answer.error_for_status()?.text().await
}
