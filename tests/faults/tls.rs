//! Tests TLS on the listeners: certificates that change under load, and clients with certificates.

use std::{
    collections::HashSet,
    fs::{self, Permissions},
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use crate::{
    service::{PATIENCE, Service, Setup, run, unix_ms},
    support::{
        frames::{HEADERS, PREFACE, SETTINGS, frame},
        poll,
        tls::Authority,
    },
};

const LOCALHOST: &str = "subjectAltName = DNS:localhost\n";
const PAST: [&str; 2] = ["20200101000000Z", "20200102000000Z"];
const PRESENT: [&str; 2] = ["20200101000000Z", "20991231000000Z"];
const FUTURE: [&str; 2] = ["20980101000000Z", "20991231000000Z"];

/// Returns the trust of a client, and the certificate that it shows.
fn connector(authorities: &[&Authority], identity: Option<&Authority>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let root = CertificateDer::from_pem_file(authority.file("ca.pem")).expect("a certificate");
        roots.add(root).expect("an authority");
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("known versions")
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let chain = CertificateDer::from_pem_file(authority.file("server.pem"));
            let key = PrivateKeyDer::from_pem_file(authority.file("server.key"));
            let (chain, key) = (chain.expect("a certificate"), key.expect("a key"));
            builder.with_client_auth_cert(vec![chain], key).expect("they fit")
        }
    };
    TlsConnector::from(Arc::new(config))
}

async fn connect(
    connector: &TlsConnector,
    address: SocketAddr,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    connector.connect(ServerName::try_from("localhost").expect("a name"), stream).await
}

/// Sends a request, and reads one small response.
async fn exchange(
    stream: &mut TlsStream<TcpStream>,
    path: &str,
    token: Option<&str>,
) -> std::io::Result<String> {
    let authorization =
        token.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = vec![0; 256 * 1024];
    let mut length = 0;
    loop {
        let read = stream.read(&mut answer[length..]).await?;
        length += read;
        let text = String::from_utf8_lossy(&answer[..length]).into_owned();
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            length.is_some_and(|length| body.len() >= length.parse().expect("a number"))
        });
        if whole || read == 0 {
            return Ok(text);
        }
    }
}

fn install(folder: &Path, authority: &Authority) {
    for file in ["server.key", "server.pem"] {
        fs::copy(authority.file(file), folder.join("next")).expect("copied");
        fs::rename(folder.join("next"), folder.join(file)).expect("replaced");
    }
}

/// Returns a copy of the authorities' file that belongs to this user: the service does not trust
/// another user's.
fn client_ca(folder: &Path, clients: &Authority) -> PathBuf {
    let own = folder.join("client-ca.pem");
    fs::copy(clients.file("ca.pem"), &own).expect("copied");
    own
}

fn with_tls(folder: &Path) -> Setup {
    Setup::new()
        .set("http.tls.cert_file", folder.join("server.pem").display())
        .set("http.tls.key_file", folder.join("server.key").display())
}

async fn until_ready(node: &Service, connector: &TlsConnector) {
    poll::until(PATIENCE, "it issues IDs over TLS", async || {
        let mut stream = connect(connector, node.address()).await.ok()?;
        let answer = exchange(&mut stream, "/readyz", None).await.ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    })
    .await;
}

async fn metric(node: &Service, connector: &TlsConnector, name: &str) -> Option<f64> {
    let mut stream = connect(connector, node.address()).await.ok()?;
    let text = exchange(&mut stream, "/metrics", None).await.ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.parse().ok()
}

fn id_of(answer: &str) -> String {
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer.rsplit_once(r#"{"id":""#).expect("an ID").1.trim_end_matches("\"}").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_change_under_load_and_no_request_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (first, second) = (Authority::new(), Authority::new());
    install(folder.path(), &first);
    let node = with_tls(folder.path()).spawn();
    let either = connector(&[&first, &second], None);
    until_ready(&node, &either).await;
    assert!(connect(&connector(&[&second], None), node.address()).await.is_err());

    let stop = Arc::new(AtomicBool::new(false));
    let mut load = JoinSet::new();
    for number in 0..8 {
        let (stop, either, address) = (Arc::clone(&stop), either.clone(), node.address());
        // Half of the clients keep their connection.
        let keeps = number % 2 == 0;
        load.spawn(async move {
            let mut ids = Vec::new();
            let mut stream = connect(&either, address).await.expect("a connection");
            while !stop.load(Ordering::Relaxed) {
                if !keeps {
                    stream = connect(&either, address).await.expect("a connection");
                }
                let answer = exchange(&mut stream, "/id/order", None).await.expect("an answer");
                ids.push(id_of(&answer));
            }
            ids
        });
    }
    // The service reloads once by the signal and once without it, and never a file that is no
    // certificate.
    for (authority, former, by_signal) in [(&second, &first, true), (&first, &second, false)] {
        install(folder.path(), authority);
        if by_signal {
            node.signal(Signal::HUP);
        }
        poll::until(PATIENCE, "the new certificate is used", async || {
            connect(&connector(&[authority], None), node.address()).await.ok()
        })
        .await;
        assert!(connect(&connector(&[former], None), node.address()).await.is_err());
    }
    fs::write(folder.path().join("server.pem"), "nothing").expect("written");
    node.signal(Signal::HUP);
    let failed = r#"raindrop_tls_reloads_total{outcome="failed"}"#;
    poll::until(PATIENCE, "the bad file is reported", async || {
        (metric(&node, &either, failed).await? >= 1.0).then_some(())
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let ids: Vec<String> = load.join_all().await.into_iter().flatten().collect();
    assert!(ids.len() > 16);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    node.logged("certificate reload failed").await;
    let expires = "raindrop_tls_certificate_expires_timestamp_seconds";
    let now = unix_ms() as f64 / 1_000.0;
    let left = metric(&node, &either, expires).await.expect("known") - now;
    assert!((0.0..=2.0 * 86_400.0).contains(&left), "{left} s");

    // The probe does not know the authority, and verifies no certificate.
    let url = format!("https://127.0.0.1:{}", node.address().port());
    let (code, answer, _) = run(&["health", "--ready", "--url", &url], &[], folder.path());
    assert_eq!(code, Some(0), "{answer}");
    // Plain text gets no answer.
    let mut plain = TcpStream::connect(node.address()).await.expect("connected");
    plain.write_all(b"GET /id/order HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_as_good_as_a_token() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (services, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    install(folder.path(), &services);
    fs::copy(clients.file("ca.pem"), folder.path().join("ca.pem")).expect("copied");
    let tokens = folder.path().join("tokens.toml");
    fs::write(
        &tokens,
        "[[token]]\nname = 'shop'\ncertificate = 'dns:localhost'\ncodes = ['order']\n",
    )
    .expect("written");
    let node = with_tls(folder.path())
        .set("http.tls.client_ca_file", folder.path().join("ca.pem").display())
        .set("auth.tokens_file", tokens.display())
        .spawn();
    until_ready(&node, &connector(&[&services], None)).await;

    for (identity, path, expected) in [
        (Some(&clients), "/id/order", "HTTP/1.1 200"),
        (Some(&clients), "/id/user", "HTTP/1.1 403"),
        (None, "/id/order", "HTTP/1.1 401"),
        (None, "/livez", "HTTP/1.1 200"),
    ] {
        let connector = connector(&[&services], identity);
        let mut stream = connect(&connector, node.address()).await.expect("a connection");
        let answer = exchange(&mut stream, path, None).await.expect("an answer");
        assert!(answer.starts_with(expected), "{path}: {answer}");
    }
    // The authorities of clients are replaced: open connections do not outlast them.
    let copy = folder.path().join("ca.pem");
    let mut kept = connect(&connector(&[&services], Some(&clients)), node.address())
        .await
        .expect("a connection");
    let answer = exchange(&mut kept, "/id/order", None).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    fs::copy(strangers.file("ca.pem"), &copy).expect("replaced");
    node.signal(Signal::HUP);
    let refused = poll::until(PATIENCE, "the kept connection is refused", async || {
        let answer = exchange(&mut kept, "/id/order", None).await.expect("an answer");
        (!answer.starts_with("HTTP/1.1 200")).then_some(answer)
    })
    .await;
    assert!(
        refused.starts_with("HTTP/1.1 401") && refused.contains("connection: close"),
        "{refused}"
    );
    fs::copy(clients.file("ca.pem"), &copy).expect("replaced");
    node.signal(Signal::HUP);
    poll::until(PATIENCE, "the former authorities are back", async || {
        let mut stream =
            connect(&connector(&[&services], Some(&clients)), node.address()).await.ok()?;
        let answer = exchange(&mut stream, "/id/order", None).await.ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    })
    .await;
    // A certificate of an unknown authority ends the handshake, or the first exchange.
    let stranger = connector(&[&services], Some(&strangers));
    let refused = async {
        let mut stream = connect(&stranger, node.address()).await?;
        exchange(&mut stream, "/livez", None).await
    };
    let refused = refused.await;
    assert!(refused.as_ref().map_or(true, String::is_empty), "{refused:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_the_wrong_kind_ends_the_handshake() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (services, clients) = (Authority::new(), Authority::new());
    install(folder.path(), &services);
    let tokens = folder.path().join("tokens.toml");
    fs::write(&tokens, "[[token]]\nname = 'shop'\ncertificate = 'dns:localhost'\n")
        .expect("written");
    let node = with_tls(folder.path())
        .set("http.tls.client_ca_file", client_ca(folder.path(), &clients).display())
        .set("auth.tokens_file", tokens.display())
        .spawn();
    until_ready(&node, &connector(&[&services], None)).await;
    for (extensions, time, is_good) in [
        (LOCALHOST, PRESENT, true),
        (LOCALHOST, PAST, false),
        (LOCALHOST, FUTURE, false),
        ("subjectAltName = DNS:localhost\nextendedKeyUsage = clientAuth\n", PRESENT, true),
        ("subjectAltName = DNS:localhost\nextendedKeyUsage = serverAuth\n", PRESENT, false),
    ] {
        clients.issue(extensions, time);
        let client = connector(&[&services], Some(&clients));
        let asked = async {
            let mut stream = connect(&client, node.address()).await?;
            exchange(&mut stream, "/id/order", None).await
        };
        let answer = asked.await.unwrap_or_default();
        assert_eq!(answer.starts_with("HTTP/1.1 200"), is_good, "{extensions} {time:?}: {answer}");
        assert!(is_good || answer.is_empty(), "{extensions} {time:?}: {answer}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_certificate_is_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (services, clients) = (Authority::new(), Authority::new());
    install(folder.path(), &services);
    clients.list_revoked(1);
    let list = folder.path().join("crl.pem");
    fs::copy(clients.file("crl.pem"), &list).expect("copied");
    let tokens = folder.path().join("tokens.toml");
    fs::write(&tokens, "[[token]]\nname = 'shop'\ncertificate = 'dns:localhost'\n")
        .expect("written");
    let node = with_tls(folder.path())
        .set("http.tls.client_ca_file", client_ca(folder.path(), &clients).display())
        .set("http.tls.client_crl_file", list.display())
        .set("auth.tokens_file", tokens.display())
        .spawn();
    until_ready(&node, &connector(&[&services], None)).await;
    let client = connector(&[&services], Some(&clients));
    let mut kept = connect(&client, node.address()).await.expect("a connection");
    let answer = exchange(&mut kept, "/id/order", None).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    // A new list with the same content disturbs no client.
    clients.list_revoked(2);
    fs::copy(clients.file("crl.pem"), &list).expect("replaced");
    node.signal(Signal::HUP);
    node.logged("certificates reloaded").await;
    let answer = exchange(&mut kept, "/id/order", None).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let expires = "raindrop_tls_client_crl_expires_timestamp_seconds";
    let stated = metric(&node, &client, expires).await.expect("known");
    let left = stated - unix_ms() as f64 / 1_000.0;
    assert!((0.0..=2.0 * 86_400.0).contains(&left), "{left} s");

    clients.revoke();
    clients.list_revoked(3);
    fs::copy(clients.file("crl.pem"), &list).expect("replaced");
    node.signal(Signal::HUP);
    poll::until(PATIENCE, "the kept connection is refused", async || {
        let answer = exchange(&mut kept, "/id/order", None).await.expect("an answer");
        answer.starts_with("HTTP/1.1 401").then_some(())
    })
    .await;
    let refused = async {
        let mut stream = connect(&client, node.address()).await?;
        exchange(&mut stream, "/livez", None).await
    };
    let refused = refused.await;
    assert!(refused.as_ref().map_or(true, String::is_empty), "{refused:?}");
    node.stop().await;
}

#[tokio::test]
async fn an_expired_certificate_is_named_in_the_log() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let authority = Authority::new();
    authority.issue(LOCALHOST, PAST);
    install(folder.path(), &authority);
    let node = with_tls(folder.path()).spawn();
    node.logged("server.pem): it expired at 2020-01-02T00:00:00").await;
    // A valid list replaces it.
    let good = Authority::new();
    install(folder.path(), &good);
    node.signal(Signal::HUP);
    poll::until(PATIENCE, "the new certificate is used", async || {
        connect(&connector(&[&good], None), node.address()).await.ok()
    })
    .await;
    assert_eq!(node.log().matches("clients refuse this certificate").count(), 1, "{}", node.log());
    node.stop().await;
}

#[tokio::test]
async fn unusable_certificates_end_the_start_and_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (one, other) = (Authority::new(), Authority::new());
    install(folder.path(), &one);
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = ("RAINDROP__HTTP__TLS__CERT_FILE", "RAINDROP__HTTP__TLS__KEY_FILE");
    let ca = "RAINDROP__HTTP__TLS__CLIENT_CA_FILE";
    let (crl, tokens) = ("RAINDROP__HTTP__TLS__CLIENT_CRL_FILE", "RAINDROP__AUTH__TOKENS_FILE");
    let some_tokens = file("tokens.toml");
    fs::write(&some_tokens, "[[token]]\nname = 'shop'\ncertificate = 'dns:localhost'\n")
        .expect("written");
    let (pem, of_key) = (file("server.pem"), file("server.key"));
    let of_other = other.file("server.key").display().to_string();
    let open_to_all = file("open.pem");
    fs::copy(&pem, &open_to_all).expect("copied");
    fs::set_permissions(&open_to_all, Permissions::from_mode(0o666)).expect("own");
    for (environment, named, code) in [
        (vec![(cert, pem.as_str())], "http.tls.key_file", 2),
        (vec![(cert, &pem), (key, "missing.key")], "http.tls.key_file (missing.key)", 2),
        (vec![(cert, &of_key), (key, &of_key)], "must hold certificates in PEM", 2),
        (vec![(cert, &pem), (key, &pem)], "one private key in PEM", 2),
        (vec![(cert, &pem), (key, &of_other)], "does not fit http.tls.cert_file", 2),
        (vec![(cert, &pem), (key, &of_key), (ca, &pem)], "auth.tokens_file", 2),
        (vec![(cert, &pem), (key, &of_key), (crl, &pem)], "used with http.tls.client_ca_file", 2),
        (
            vec![(cert, &pem), (key, &of_key), (ca, &pem), (crl, &pem), (tokens, &some_tokens)],
            "must hold certificate revocation lists in PEM",
            2,
        ),
        (
            vec![(cert, &pem), (key, &of_key), (ca, &open_to_all), (tokens, &some_tokens)],
            "other users may write it: its mode is 666",
            2,
        ),
    ] {
        let (status, _, error) =
            run(&["serve", "--listen", "127.0.0.1:0"], &environment, folder.path());
        assert_eq!(status, Some(code), "{error}");
        assert!(error.contains(named), "{named}: {error}");
    }
}

/// Speaks HTTP/2 over this connector, and returns the agreed protocol and the first byte of the
/// response to GET / (`0x88`: `:status 200`).
async fn over_http2(config: &ClientConfig, address: SocketAddr) -> (Vec<u8>, u8) {
    let mut config = config.clone();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connect(&connector, address).await.expect("connected");
    let agreed = stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec();
    let get = b"\0\0\x0e\x01\x05\0\0\0\x01\x82\x87\x84\x41\x09localhost";
    stream.write_all(&[PREFACE, SETTINGS, get].concat()).await.expect("sent");
    stream.flush().await.expect("sent");
    (agreed, frame(&mut stream, HEADERS).await[0])
}

#[tokio::test]
async fn http2_is_agreed_in_the_handshake() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let authority = Authority::new();
    install(folder.path(), &authority);
    let node = with_tls(folder.path()).spawn();
    let connector = connector(&[&authority], None);
    until_ready(&node, &connector).await;
    let (agreed, status) = over_http2(connector.config(), node.address()).await;
    assert_eq!((agreed.as_slice(), status), (&b"h2"[..], 0x88));
    node.stop().await;
}

/// Silent connections are in a handshake for ten seconds: they must keep no client out for that
/// long.
#[tokio::test]
async fn client_is_served_beside_handshakes_that_never_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let authority = Authority::new();
    install(folder.path(), &authority);
    let node = with_tls(folder.path()).set("http.max_connections", 16).spawn();
    let connector = connector(&[&authority], None);
    until_ready(&node, &connector).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(node.address()).await.expect("connected"));
    }
    for _ in 0..20 {
        let asked = async {
            let mut stream = connect(&connector, node.address()).await?;
            exchange(&mut stream, "/id/order", None).await
        };
        let answer = tokio::time::timeout(Duration::from_secs(5), asked).await;
        id_of(&answer.expect("in time").expect("an answer"));
    }
    node.stop().await;
}
