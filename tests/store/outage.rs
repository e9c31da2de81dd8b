//! Tests a server that freezes, fails and comes back; each test has a separate server.

use std::time::Duration;

use raindrop::{
    core::lease::HighWaterMarks,
    store::{Store, StoreError, StoreSettings},
};

use crate::{
    backend::{Backend, birth, new_rows, open, record, scope, token, with_rows, write},
    support::{poll, server::Server},
};

macro_rules! on_every_server {
    ($($case:ident)*) => {
        on_every_server!(@ mariadb Mariadb [] $($case)*);
        on_every_server!(@ postgres Postgres [] $($case)*);
        on_every_server!(@ redis Redis [] $($case)*);
        on_every_server!(@ kubernetes Kubernetes [ignore = "make kubernetes-test"] $($case)*);
    };
    (@ $module:ident $engine:ident $attributes:tt $($case:ident)*) => {
        mod $module {
            use crate::{backend::Backend, support::{$module::$engine, server::Server}};
            $(on_every_server!(@@ $engine $attributes $case);)*
        }
    };
    (@@ $engine:ident [$($attribute:meta)?] $case:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$attribute])?
        async fn $case() {
            let server = Server::start(&$engine).await;
            let backend = Backend::$engine(server.database().await);
            super::$case(&server, &backend).await;
        }
    };
}

on_every_server! {
    a_frozen_server_hangs_nobody
    a_server_that_is_gone_is_found_again
    a_call_that_is_given_up_blocks_nobody
}

pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// The time-out for a connection and its login; against a server that hangs, no call gets further.
pub(crate) const OPENING: Duration = TIMEOUT.saturating_mul(3);
/// No answer may take a further time-out on top.
pub(crate) const MARGIN: Duration = Duration::from_millis(900);

/// For events that must happen, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Returns settings with a short time-out.
pub(crate) fn settings(url: String) -> StoreSettings {
    let mut settings = StoreSettings::new(url);
    settings.timeout = TIMEOUT;
    settings
}

/// Runs every kind of call; each fails as `expected` says, within the time-out of its first step.
async fn every_call_fails(store: &dyn Store, expected: impl Fn(&StoreError) -> bool) {
    let scope = scope(1, 3);
    macro_rules! fails {
        ($($call:ident($($arg:expr),*))*) => {$(
            poll::within(OPENING + MARGIN, stringify!($call), async || {
                let error = store.$call($($arg),*).await.map(drop).expect_err("nobody is there");
                assert!(expected(&error), "{}: {error:?}", stringify!($call));
            })
            .await;
        )*};
    }
    fails! {
        prepare()
        create_record("default", &record(1, "words"))
        read_record("default")
        swap_record("default", token(1), &record(2, "words"))
        create_rows(&scope, &new_rows(&HighWaterMarks::all_at(0, 2), token(1)))
        survey(&scope)
        free_rows(&scope, None, 9)
        free_rows(&scope, Some("me"), 9)
        read_row(&scope, 1)
        swap_row(&scope, 1, birth(1), &write(1))
        list_rows()
    }
}

async fn a_frozen_server_hangs_nobody(server: &Server, backend: &Backend) {
    with_rows(backend, &scope(1, 3)).await;
    let store = open(&settings(backend.url())).await;
    poll::until(PATIENCE, "a survey", async || store.survey(&scope(1, 3)).await.ok()).await;

    server.freeze();
    let timed_out = |error: &StoreError| matches!(error, StoreError::TimedOut { .. });
    every_call_fails(&*store, timed_out).await;
    // More calls at once than there are connections.
    poll::within(OPENING + MARGIN, "ten calls at once", async || {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let store = store.clone();
            calls.spawn(async move { store.survey(&scope(1, 3)).await.is_err() });
        }
        assert_eq!(calls.join_all().await, [true; 10]);
    })
    .await;

    server.thaw();
    poll::until(PATIENCE, "the store works again", async || store.survey(&scope(1, 3)).await.ok())
        .await;
    // The swap that timed out may still arrive, but only as a whole.
    let patient = backend.unprepared().await;
    poll::until(PATIENCE, "a swap takes place", async || {
        let row = patient.read_row(&scope(1, 3), 1).await.expect("an answer").expect("the row");
        assert!([birth(1), token(1)].contains(&row.token), "{row:?}");
        let swapped = patient.swap_row(&scope(1, 3), 1, row.token, &write(2)).await;
        swapped.expect("an answer").then_some(())
    })
    .await;
}

async fn a_server_that_is_gone_is_found_again(server: &Server, backend: &Backend) {
    with_rows(backend, &scope(1, 3)).await;
    let store = open(&settings(backend.url())).await;
    let patient = backend.unprepared().await;
    let mut before = birth(2);
    for (bits, stop) in [(1, Server::kill9 as fn(&Server)), (2, Server::stop)] {
        let swapped = patient.swap_row(&scope(1, 3), 2, before, &write(bits)).await;
        assert!(swapped.expect("an answer"));
        before = token(bits);
        stop(server);
        let unavailable = |error: &StoreError| matches!(error, StoreError::Unavailable(_));
        every_call_fails(&*store, unavailable).await;
        // An address where no server listens must not prevent a start.
        every_call_fails(&*open(&settings(backend.url())).await, unavailable).await;
        server.restart().await;
        let row = poll::until(PATIENCE, "it is found again", async || {
            store.read_row(&scope(1, 3), 2).await.ok().flatten()
        })
        .await;
        assert_eq!(row.token, before, "an acknowledged write was lost");
        store.prepare().await.expect("tables");
    }
}

async fn a_call_that_is_given_up_blocks_nobody(_: &Server, backend: &Backend) {
    let store = with_rows(backend, &scope(1, 3)).await;
    let scope = scope(1, 3);
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_micros(300), store.survey(&scope)).await;
    }
    assert_eq!(store.survey(&scope).await.expect("a survey").free, 3);
}
