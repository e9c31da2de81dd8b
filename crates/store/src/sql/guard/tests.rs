//! Servers that claim to have no TLS and ask for the password.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener as StdListener,
    sync::{Arc, Mutex},
    thread,
};

use crate::{StoreSettings, TlsMode, sql::engine::Engine, with_sources};

const PASSWORD: &str = "planted-secret-7Qx";

/// A server that greets, answers what it is sent until `reply` has no answer, and keeps what it got.
struct Thief {
    port: u16,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Thief {
    fn start(greeting: Vec<u8>, reply: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> Self {
        let listener = StdListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.expect("a client");
                let _ = client.write_all(&greeting);
                let mut chunk = [0; 4096];
                while let Ok(count @ 1..) = client.read(&mut chunk) {
                    kept.lock().expect("no panic").extend(&chunk[..count]);
                    let Some(answer) = reply(&chunk[..count]) else { break };
                    let _ = client.write_all(&answer);
                }
            }
        });
        Self { port, received }
    }

    /// Connects, which fails; returns why.
    async fn rob<E: Engine>(&self, scheme: &str, tls: TlsMode) -> String {
        // Another way to this machine, which does not count as local.
        let host = "[::ffff:127.0.0.1]";
        let url = format!("{scheme}://u:{PASSWORD}@{host}:{}/ids", self.port);
        let settings = StoreSettings { tls: Some(tls), ..StoreSettings::new(url) };
        let engine = E::new(&settings).unwrap_or_else(|error| panic!("{error}"));
        assert!(!engine.is_verified());
        let error = engine.open(0).await.err().expect("a server that only steals");
        with_sources(&error)
    }

    fn has_password(&self) -> bool {
        let received = self.received.lock().expect("no panic");
        received.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD.as_bytes())
    }

    /// How many bytes were sent to it.
    fn received(&self) -> usize {
        self.received.lock().expect("no panic").len()
    }
}

#[cfg(feature = "mysql")]
mod mysql {
    use super::*;
    use crate::sql::{
        guard::{Login as _, Step},
        mysql::{MySql, MySqlLogin},
    };

    fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).expect("a short one");
        [&[length, 0, 0, number], payload].concat()
    }

    /// A greeting of a server without TLS.
    fn greeting(version: u8, plugin: &str) -> Vec<u8> {
        let with_plugins = 1_u32 << 19 | 0x8000 | 0x0200 | 0x0008 | 0x0001;
        let [a, b, c, d] = with_plugins.to_le_bytes();
        packet(
            0,
            &[
                &[version][..],
                b"8.4.0\0",
                &[1, 0, 0, 0],
                b"12345678\0",
                &[a, b, 45, 2, 0, c, d, 21],
                &[0; 10],
                b"123456789012\0",
                plugin.as_bytes(),
                &[0],
            ]
            .concat(),
        )
    }

    fn switch(plugin: &str) -> Vec<u8> {
        packet(2, &[b"\xfe", plugin.as_bytes(), b"\x0012345678901234567890\0"].concat())
    }

    #[tokio::test]
    async fn a_mysql_server_without_tls_does_not_get_the_password_or_a_key_request() {
        let (native, sha2) = ("mysql_native_password", "caching_sha2_password");
        for (first, then, answers) in [
            // The answer to the greeting would be the password, or a request for a key.
            (greeting(10, "mysql_clear_password"), Vec::new(), false),
            (greeting(0, "mysql_clear_password"), Vec::new(), false),
            (greeting(10, "sha256_password"), Vec::new(), false),
            (greeting(10, native), switch("mysql_clear_password"), true),
            (greeting(10, native), switch("sha256_password"), true),
            (greeting(10, sha2), packet(2, &[1, 4]), true),
            (greeting(10, sha2), packet(2, b"\x01-----BEGIN PUBLIC KEY-----"), true),
        ] {
            let thief = Thief::start(first, move |_| Some(then.clone()));
            let said = thief.rob::<MySql>("mysql", TlsMode::Prefer).await;
            assert!(
                said.contains("asked for the password over a connection without TLS"),
                "{said}"
            );
            assert!(said.contains("store.tls = \"off\""), "{said}");
            assert!(!thief.has_password() && !said.contains(PASSWORD), "{said}");
            // One packet with the answer to the challenge, and nothing after it.
            assert_eq!(thief.received() > 0, answers);
            assert!(thief.received() < 200, "{}", thief.received());
        }
    }

    #[tokio::test]
    async fn a_mysql_server_gets_the_password_only_with_tls_off() {
        for (tls, gets_it) in [(TlsMode::Off, true), (TlsMode::Require, false)] {
            let thief = Thief::start(greeting(10, "mysql_clear_password"), |_| None);
            thief.rob::<MySql>("mysql", tls).await;
            assert_eq!(thief.has_password(), gets_it, "{tls:?}");
        }
    }

    #[test]
    fn challenges_and_errors_of_a_login_pass() {
        let mut login = MySqlLogin::default();
        for (message, step) in [
            (greeting(10, "caching_sha2_password"), Step::PassOn),
            (switch("mysql_native_password"), Step::PassOn),
            (packet(2, &[1, 3]), Step::PassOn),
            (packet(2, b"\xff\x15\x04#28000plugin mysql_clear_password"), Step::PassOn),
            (packet(2, &[1]), Step::Refuse),
            (packet(2, &[]), Step::PassOn),
            (packet(3, &[0, 0, 0, 2, 0, 0, 0]), Step::LoggedIn),
        ] {
            assert_eq!(login.judge(&message), step, "{message:?}");
        }
        assert_eq!(MySqlLogin::length(&[1, 2, 0, 9]), Some(513));
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use crate::sql::{
        guard::{Login as _, Step},
        postgres::{Postgres, PostgresLogin},
    };

    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
    const CLEAR_TEXT: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];

    fn thief() -> Thief {
        Thief::start(Vec::new(), |request| match request {
            _ if request == SSL_REQUEST => Some(b"N".to_vec()),
            [b'p', ..] => None,
            _ => Some(CLEAR_TEXT.to_vec()),
        })
    }

    #[tokio::test]
    async fn a_postgres_server_without_tls_does_not_get_the_password() {
        let thief = thief();
        let said = thief.rob::<Postgres>("postgres", TlsMode::Prefer).await;
        assert!(said.contains("asked for the password over a connection without TLS"), "{said}");
        assert!(!thief.has_password() && !said.contains(PASSWORD), "{said}");
        assert!(thief.received() > SSL_REQUEST.len(), "it was tried without TLS");
    }

    #[tokio::test]
    async fn a_postgres_server_gets_the_password_only_with_tls_off() {
        for (tls, gets_it) in [(TlsMode::Off, true), (TlsMode::Require, false)] {
            let thief = thief();
            thief.rob::<Postgres>("postgres", tls).await;
            assert_eq!(thief.has_password(), gets_it, "{tls:?}");
        }
    }

    #[test]
    fn challenges_and_errors_of_a_login_pass() {
        for (message, step) in [
            (&b"R\0\0\0\x0c\0\0\0\x05salt"[..], Step::PassOn),
            (b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0", Step::PassOn),
            (b"R\0\0\0\x08\0\0\0\0", Step::PassOn),
            (b"E\0\0\0\x06S\0", Step::PassOn),
            (&CLEAR_TEXT, Step::Refuse),
            (b"Z\0\0\0\x05I", Step::LoggedIn),
        ] {
            assert_eq!(PostgresLogin.judge(message), step, "{message:?}");
        }
        assert_eq!(PostgresLogin::length(&CLEAR_TEXT[..5]), Some(4));
        assert_eq!(PostgresLogin::length(&[b'R', 0, 0, 0, 3]), None);
    }
}
