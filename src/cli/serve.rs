//! `raindrop serve`.

use std::sync::Arc;

use tokio::net::TcpListener;

use super::Failure;
use crate::{
    core::clock::SystemClock,
    server::{ServeError, Service, config::Config, shutdown, telemetry},
    store,
    store::with_sources,
};

pub(super) fn run(config: Config) -> Result<(), Failure> {
    telemetry::start(&config.log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(config));
    // A frozen store must not hold up the end of the process.
    runtime.shutdown_background();
    result
}

async fn serve(config: Config) -> Result<(), Failure> {
    let shutdown = shutdown::signals()?;
    let listen = config.http.listen;
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| Failure::Failed(format!("http.listen = {listen}: {error}")))?;
    let clock = Arc::new(SystemClock::default());
    let store = store::connect(&config.store, clock.clone()).await?;
    let service = Service { config, listener, store, clock };
    service.run(shutdown).await.map_err(|error| match error {
        error @ ServeError::Keepers(_) => Failure::Usage(error.to_string()),
        ServeError::Tokens(error) => error.into(),
        error => Failure::Failed(with_sources(&error)),
    })
}
