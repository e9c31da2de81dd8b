//! What each client may have: requests in a second, and new codes.

use std::{fmt::Write, sync::Arc};

use raindrop::{core::clock::SystemClock, store::MemoryStore};

use crate::{
    connections::Reached,
    support::{Answer, World, config_of, token_entry},
};

type Headers<'a> = &'a [(&'a str, &'a str)];

/// Every test connects from here.
const PROXY: &str = "http.trusted_proxies = '127.0.0.0/8'\n";
const ONE: Headers<'_> = &[("x-forwarded-for", "192.0.2.66, 198.51.100.1")];
const OTHER: Headers<'_> = &[("x-forwarded-for", "198.51.100.2")];
const A: Headers<'_> = &[("authorization", "Bearer token-a")];
const B: Headers<'_> = &[("authorization", "Bearer token-b")];

/// Ticks of a day, so that no test sees two of them.
const DAYS: &str = "layout = { time_unit = 'day', timestamp_bits = 20 }\n";

async fn reached(text: &str) -> Reached {
    let clock = Arc::new(SystemClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let world = World::with_config(config_of(text), store, clock);
    world.until_issuing().await;
    Reached::start(world).await
}

/// With the tokens `a` and `b`.
async fn guarded(text: &str) -> (Reached, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    let mut tokens = String::new();
    for name in ["a", "b"] {
        write!(tokens, "{}", token_entry(name, &format!("token-{name}"))).expect("a string");
    }
    std::fs::write(&path, tokens).expect("written");
    let file = format!("auth.tokens_file = '{}'\n", path.display());
    (reached(&format!("{file}{text}")).await, folder)
}

/// Asks until the client is refused; one request a second is always exceeded at last.
async fn until_refused(reached: &Reached, uri: &str, headers: Headers<'_>) -> Answer {
    for _ in 0..100_000 {
        let answer = reached.call("GET", uri, headers).await;
        if answer.status == 429 {
            return answer;
        }
        assert!([200, 401].contains(&answer.status.as_u16()), "{answer:?}");
    }
    panic!("never refused");
}

#[tokio::test]
async fn requests_above_the_rate_of_an_address_are_429() {
    let reached = reached(&format!("{PROXY}http.max_requests_per_ip = 1\n")).await;
    let detail = until_refused(&reached, "/id/order", ONE).await.problem(429, "too_many_requests");
    assert!(
        detail.contains("from 198.51.100.1:") && detail.contains("max_requests_per_ip"),
        "{detail}"
    );
    assert_eq!(reached.call("GET", "/id/order", OTHER).await.status, 200);
    for _ in 0..5 {
        // Probes may come from the address of a client.
        assert_eq!(reached.call("GET", "/livez", ONE).await.status, 200);
        assert_eq!(reached.call("GET", "/readyz", ONE).await.status, 200);
    }
    until_refused(&reached, "/metrics", OTHER).await.problem(429, "too_many_requests");
    reached.stop().await;
}

#[tokio::test]
async fn untrusted_peer_cannot_forge_a_client_address() {
    let reached = reached("http.max_requests_per_ip = 1\n").await;
    let detail = until_refused(&reached, "/id/order", ONE).await.problem(429, "too_many_requests");
    assert!(detail.contains("from 127.0.0.1:"), "{detail}");
    reached.stop().await;
}

#[tokio::test]
async fn unknown_tokens_count_against_their_address() {
    let (reached, _folder) = guarded("http.max_requests_per_ip = 1\n").await;
    let guess: Headers<'_> = &[("authorization", "Bearer guessed")];
    until_refused(&reached, "/id/order", guess).await.problem(429, "too_many_requests");
    reached.stop().await;
}

#[tokio::test]
async fn requests_above_the_rate_of_a_token_are_429() {
    let (reached, _folder) = guarded("auth.max_requests_per_token = 1\n").await;
    let detail = until_refused(&reached, "/id/order", A).await.problem(429, "too_many_requests");
    assert!(detail.contains("\"a\"") && detail.contains("max_requests_per_token"), "{detail}");
    assert_eq!(reached.call("GET", "/id/order", B).await.status, 200);
    reached.stop().await;
}

/// Creates codes until the client has its share; returns how many.
async fn create(reached: &Reached, namespace: &str, name: &str, headers: Headers<'_>) -> usize {
    for number in 0..100 {
        let uri = format!("/id/{name}-{number}?namespace={namespace}");
        let answer = reached.call("GET", &uri, headers).await;
        if answer.status != 200 {
            let detail = answer.problem(429, "too_many_codes");
            assert!(detail.contains("codes.max_per_client"), "{detail}");
            return number;
        }
    }
    panic!("never refused");
}

#[tokio::test]
async fn new_codes_above_the_share_of_an_address_are_refused() {
    let shares =
        "[codes]\nshared = false\nmax = 20\nmax_per_client = 5\n[issue]\nmax_wait = '100ms'\n";
    let text = format!(
        "{PROXY}{DAYS}{shares}\
         [namespaces.quick]\n\
         [namespaces.numbers]\nmode = 'segment'\nsegment.auto_create = true\n"
    );
    let reached = reached(&text).await;
    for namespace in ["default", "numbers"] {
        assert_eq!(create(&reached, namespace, "flood", ONE).await, 5);
        // A forged part of the header makes no other client.
        let forged: Headers<'_> = &[("x-forwarded-for", "192.0.2.7, 198.51.100.1")];
        assert_eq!(create(&reached, namespace, "forged", forged).await, 0);
        let existing = format!("/id/flood-3?namespace={namespace}");
        assert_eq!(reached.call("GET", &existing, ONE).await.status, 200);
        assert_eq!(create(&reached, namespace, "honest", OTHER).await, 5);
    }
    for number in 0..50 {
        let uri = format!("/id/code-{number}?namespace=quick");
        assert_eq!(reached.call("GET", &uri, ONE).await.status, 200, "ticks of a millisecond");
    }
    reached.stop().await;
}

#[tokio::test]
async fn new_codes_of_a_token_count_against_the_token() {
    let text = format!("{DAYS}[codes]\nshared = false\nmax = 20\nmax_per_client = 5\n");
    let (reached, _folder) = guarded(&text).await;
    assert_eq!(create(&reached, "default", "a", A).await, 5);
    assert_eq!(create(&reached, "default", "b", B).await, 5);
    reached.stop().await;
}
