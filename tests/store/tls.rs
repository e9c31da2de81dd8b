//! Tests how connections to real servers are protected: with TLS, without it, and by the rule that
//! no password leaves without TLS.

use std::{path::PathBuf, sync::Arc};

use raindrop::store::{Store, StoreError, StoreSettings, TlsMode, with_sources};

use crate::{
    backend::{open, patient},
    support::{
        PLANTED, free_port,
        mariadb::Mariadb,
        postgres::{self, Postgres},
        redis::{Redis, run},
        server::Server,
        tls::Authority,
    },
};

/// Another address of this machine, which does not count as local.
const ELSEWHERE: &str = "[::ffff:127.0.0.1]";

/// Returns the address of a server's database for this login and host.
fn address(url: &str, login: &str, host: &str, port: u16) -> String {
    let (scheme, rest) = url.split_once("://").expect("an address");
    let (_, database) = rest.split_once('/').expect("a database");
    format!("{scheme}://{login}{host}:{port}/{database}")
}

/// Opens a store that connects in this mode, with these authorities.
async fn connect(url: &str, tls: TlsMode, ca_file: Option<PathBuf>) -> Arc<dyn Store> {
    let mut settings: StoreSettings = patient(url.to_owned());
    (settings.tls, settings.tls_ca_file) = (Some(tls), ca_file);
    open(&settings).await
}

/// Returns why the store cannot reach the server.
async fn refusal(url: &str, tls: TlsMode, ca_file: Option<PathBuf>) -> String {
    let error = connect(url, tls, ca_file).await.prepare().await.expect_err("refused");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    let said = format!("{error:?}");
    assert!(!said.contains(PLANTED), "{said}");
    said
}

/// Connects in every mode to a server whose certificate is for `localhost`.
async fn every_mode(url: &str, login: &str, port: u16, authority: &Authority) {
    let at = |host: &str| address(url, login, host, port);
    let ca = || Some(authority.file("ca.pem"));
    let prepared = async |host: &str, tls, ca_file| {
        let store = connect(&at(host), tls, ca_file).await;
        store.prepare().await.unwrap_or_else(|error| panic!("{host} {tls:?}: {error:?}"));
        store.is_verified()
    };
    assert!(prepared("localhost", TlsMode::Verify, ca()).await);
    assert!(!prepared(ELSEWHERE, TlsMode::Require, None).await);
    // The certificate is not for the first host.
    let hosts = format!("{ELSEWHERE}:{port},localhost");
    assert!(prepared(&hosts, TlsMode::Verify, ca()).await);
    // Neither well-known authorities nor another of the same name issued the certificate.
    for authority in [None, Some(Authority::new())] {
        let file = authority.as_ref().map(|authority| authority.file("ca.pem"));
        let said = refusal(&at("localhost"), TlsMode::Verify, file).await;
        assert!(said.contains("UnknownIssuer") || said.contains("BadSignature"), "{said}");
    }
    let said = refusal(&at(ELSEWHERE), TlsMode::Verify, ca()).await;
    // Each driver words the error differently.
    assert!(said.contains("NotValidForName") || said.contains("not valid for name"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_with_tls_is_verified_where_that_is_asked_for() {
    let authority = Authority::new();
    let file = |name| authority.file(name).display().to_string();
    let (cert, key) = (file("server.pem"), file("server.key"));
    let arguments = vec![format!("--ssl-cert={cert}"), format!("--ssl-key={key}")];
    let server = Server::start_with(&Mariadb, arguments).await;
    let url = server.database().await;
    // The server refuses users who connect without TLS.
    server.run(&format!("CREATE USER 'u'@'%' IDENTIFIED BY '{PLANTED}' REQUIRE SSL")).await;
    server.run("GRANT ALL ON *.* TO 'u'@'%'").await;
    let login = format!("u:{PLANTED}@");
    every_mode(&url, &login, server.port(), &authority).await;
    let elsewhere = address(&url, &login, ELSEWHERE, server.port());
    let store = connect(&elsewhere, TlsMode::Prefer, None).await;
    store.prepare().await.expect("TLS");
    let error = connect(&elsewhere, TlsMode::Off, None).await.prepare().await;
    assert!(matches!(error, Err(StoreError::Refused(_))), "{error:?}");
}

/// Connects to a server without TLS that does not count as local.
async fn gets_no_password(url: &str) {
    for tls in [TlsMode::Prefer, TlsMode::Require] {
        let said = refusal(url, tls, None).await;
        let advice = said.contains("give the server TLS, or set store.tls = \\\"off\\\"");
        assert_eq!(advice, tls == TlsMode::Prefer, "{said}");
    }
    let store = connect(url, TlsMode::Off, None).await;
    store.prepare().await.expect("sent without protection");
    assert!(!store.is_verified());
    let wrong = connect(&url.replace(PLANTED, "wrong"), TlsMode::Off, None).await;
    let error = wrong.prepare().await;
    assert!(matches!(error, Err(StoreError::Refused(_))), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_without_tls_gets_no_password() {
    let server = Server::start_with(&Mariadb, vec!["--skip-ssl".to_owned()]).await;
    let url = server.database().await;
    server.run(&format!("CREATE USER 'u'@'%' IDENTIFIED BY '{PLANTED}'")).await;
    server.run("GRANT ALL ON *.* TO 'u'@'%'").await;
    gets_no_password(&address(&url, &format!("u:{PLANTED}@"), ELSEWHERE, server.port())).await;
}

/// Starts a PostgreSQL that admits these users by these methods, and every other user without a
/// password.
async fn postgres_with(authority: &Authority, methods: &[(&str, &str)], more: &[String]) -> Server {
    let lines = methods.iter().map(|(user, method)| format!("host all {user} all {method}\n"));
    let rules: String = lines.collect();
    std::fs::write(authority.file("hba"), rules + "host all all all trust\n").expect("a file");
    postgres::give_away(&authority.file("hba"));
    let mut arguments =
        vec!["-c".to_owned(), format!("hba_file={}", authority.file("hba").display())];
    arguments.extend_from_slice(more);
    let server = Server::start_with(&Postgres, arguments).await;
    for (user, method) in methods {
        let stored = if *method == "md5" { "md5" } else { "scram-sha-256" };
        server
            .run(&format!(
                "SET password_encryption = '{stored}'; \
                 CREATE ROLE {user} LOGIN SUPERUSER PASSWORD '{PLANTED}'"
            ))
            .await;
    }
    server
}

/// Returns the arguments of a PostgreSQL with TLS.
fn postgres_tls(authority: &Authority) -> Vec<String> {
    let file = |name| authority.file(name).display().to_string();
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", file("server.pem")),
        format!("ssl_key_file={}", file("server.key")),
    ];
    settings.into_iter().flat_map(|it| ["-c".to_owned(), it]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_with_tls_is_verified_where_that_is_asked_for() {
    let authority = Authority::new();
    let settings = postgres_tls(&authority);
    let server = postgres_with(&authority, &[("clear", "password")], &settings).await;
    let url = server.database().await;
    let login = format!("clear:{PLANTED}@");
    every_mode(&url, &login, server.port(), &authority).await;
    let elsewhere = address(&url, &login, ELSEWHERE, server.port());
    // The server asks for the password in plain text, which it gets only over TLS.
    let store = connect(&elsewhere, TlsMode::Prefer, None).await;
    store.prepare().await.expect("TLS");
    let encrypted = "SELECT DISTINCT CAST(ssl AS TEXT) FROM pg_stat_ssl NATURAL JOIN pg_stat_activity \
                     WHERE application_name = 'raindrop'";
    assert_eq!(server.texts(&url, encrypted).await, ["true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_without_tls_gets_no_password() {
    let folder = Authority::new();
    let methods = [("clear", "password"), ("scram", "scram-sha-256")];
    let server = postgres_with(&folder, &methods, &[]).await;
    let url = server.database().await;
    gets_no_password(&address(&url, &format!("clear:{PLANTED}@"), ELSEWHERE, server.port())).await;
    // The driver quotes the character that it refuses.
    server.run("ALTER ROLE scram PASSWORD '\u{1f642}'").await;
    let emoji = address(&url, "scram:%F0%9F%99%82@", ELSEWHERE, server.port());
    let error = connect(&emoji, TlsMode::Off, None).await.prepare().await.expect_err("prohibited");
    let said = with_sources(&error);
    assert!(said.contains("RFC 4013") && !said.contains('\u{1f642}'), "{said}");
}

/// Starts a Redis that has TLS on this port.
async fn redis_with(authority: &Authority, port: u16) -> Server {
    let mut arguments: Vec<String> =
        ["--tls-port", &port.to_string(), "--tls-auth-clients", "no"].map(str::to_owned).into();
    for (name, file) in [("cert", "server.pem"), ("key", "server.key"), ("ca-cert", "ca.pem")] {
        arguments.push(format!("--tls-{name}-file"));
        arguments.push(authority.file(file).display().to_string());
    }
    Server::start_with(&Redis, arguments).await
}

/// Operators make such certificates with the first command that they find.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_cannot_be_used_is_named_with_the_way_out() {
    const VERSION_1: &str =
        "certificate is one of X.509 version 1, which cannot be used: give it one";
    const KEY: &str =
        "perhaps its key is one of P-521 or RSA-PSS, which cannot be used, where one of P-256";
    for (authority, expected) in [
        (Authority::with_version_1(), VERSION_1),
        (Authority::with_key("ec -pkeyopt ec_paramgen_curve:P-521"), KEY),
        (Authority::with_key("rsa-pss -pkeyopt rsa_keygen_bits:2048"), KEY),
    ] {
        let server = postgres_with(&authority, &[], &postgres_tls(&authority)).await;
        let url = address(&server.database().await, "postgres@", "localhost", server.port());
        for tls in [TlsMode::Prefer, TlsMode::Require] {
            let said = refusal(&url, tls, None).await;
            assert!(said.contains(expected), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_with_tls_is_verified_unless_told_otherwise() {
    let authority = Authority::new();
    let port = free_port();
    let server = redis_with(&authority, port).await;
    let url = server.database().await;
    run::<()>(&url, &["ACL", "SETUSER", "u", "on", &format!(">{PLANTED}"), "~*", "+@all"]).await;
    let url = url.replace("redis://", "rediss://");
    let login = format!("u:{PLANTED}@");
    every_mode(&url, &login, port, &authority).await;
    let mut settings = patient(address(&url, &login, "localhost", port));
    let said = format!("{:?}", open(&settings).await.prepare().await);
    assert!(said.contains("UnknownIssuer"), "{said}");
    settings.tls_ca_file = Some(authority.file("ca.pem"));
    let store = open(&settings).await;
    store.prepare().await.expect("the scheme asks for verify");
    assert!(store.is_verified());
    (settings.tls, settings.tls_ca_file) = (Some(TlsMode::Require), None);
    open(&settings).await.prepare().await.expect("any certificate");
}
