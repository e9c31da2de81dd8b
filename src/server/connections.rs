//! Accepts connections and ends them: gracefully first, and all of them at a deadline.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, interval_at},
};

use super::{
    beat::{BEAT, BeatTimer},
    front::Front,
    state::AppState,
};

/// How long a connection may be idle or dawdle over a request's head: more than the 60 s that
/// load balancers keep idle connections, so that they close first. Kept to the next beat.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// Serves this state on this listener until `stop` turns true, then lets open requests end.
/// Dropping the future ends every connection at once.
///
/// It answers as [`router`](super::router()) does, and issues IDs for a part of what that takes.
/// [`Service::run`](super::Service::run) is this and everything around it.
pub async fn serve(listener: TcpListener, state: Arc<AppState>, mut stop: watch::Receiver<bool>) {
    let max_connections = state.http.max_connections;
    let front = Front::new(state);
    let timer = BeatTimer::new();
    // Told at every beat; true from the stop on.
    let (heart, beats) = watch::channel(false);
    let serving = async {
        let mut connections = JoinSet::new();
        tokio::select! {
            biased;
            () = stopped(&mut stop) => {}
            () = async {
                let permits = Arc::new(Semaphore::new(max_connections));
                loop {
                    // Those beyond the bound wait in the kernel's queue.
                    let permit = Arc::clone(&permits).acquire_owned().await;
                    let stream = accept(&listener).await;
                    while connections.try_join_next().is_some() {}
                    let (front, timer, beats) = (front.clone(), timer.clone(), beats.clone());
                    connections.spawn(async move {
                        let _permit = permit;
                        connection(stream, front, timer, beats).await;
                    });
                }
            } => {}
        }
        drop(listener);
        heart.send_replace(true);
        while connections.join_next().await.is_some() {}
    };
    let beating = async {
        let mut beat = interval_at(Instant::now() + BEAT, BEAT);
        loop {
            beat.tick().await;
            timer.beat();
            heart.send_modify(|_| {});
        }
    };
    tokio::select! {
        () = serving => {}
        () = beating => {}
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A dropped sender means that nobody can stop the service any more but by dropping it.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY cannot be set");
                }
                return stream;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                // Most likely no file descriptor is free; trying at once would spin.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(
    stream: TcpStream,
    front: Front,
    timer: BeatTimer,
    mut beats: watch::Receiver<bool>,
) {
    // Requests count their references to it in memory that no other connection touches.
    let front = Arc::new(front);
    let service = service_fn(move |request| {
        let front = Arc::clone(&front);
        async move { Ok::<_, Infallible>(front.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(timer)
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let result = loop {
        tokio::select! {
            biased;
            result = &mut connection => break result,
            // The sender outlives every connection.
            Ok(()) = beats.changed() => {
                if *beats.borrow_and_update() {
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended with an error");
    }
}
