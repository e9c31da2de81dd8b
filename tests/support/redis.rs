//! Redis servers of the tests' own.
//!
//! Without Redis on the machine, and as root on Debian or Ubuntu, it is installed. With
//! `RAINDROP_TEST_REDIS_URL` (`redis://user:password@host:port`, no database) the shared server is
//! that one; it must have 1000 databases, and the tests empty those that they use.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use redis::{Client, FromRedisValue, cmd};
use tokio::sync::OnceCell;

use super::{
    debian,
    server::{Kind, Server, find_program},
};

const KIND: Kind = Kind { name: "redis-server", polite: "TERM", fill: |_| (), program };

/// A server.
#[derive(Debug)]
pub(crate) struct Redis {
    address: String,
    private: Option<Server>,
}

impl Redis {
    /// The server that the tests of this process share: for tests that do it no harm.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Redis> = OnceCell::const_new();
        SHARED
            .get_or_init(async || match env::var("RAINDROP_TEST_REDIS_URL") {
                Ok(url) => {
                    let address = url.trim_end_matches('/').to_owned();
                    Self { address, private: None }
                }
                Err(_) => Self::start().await,
            })
            .await
    }

    /// A server for one test, which may do to it what it likes.
    pub(crate) async fn start() -> Self {
        let server = Server::start(KIND, answers).await;
        Self { address: address(server.port()), private: Some(server) }
    }

    /// Empties a database and returns its address.
    pub(crate) async fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let url = format!("{}/{}", self.address, COUNT.fetch_add(1, Ordering::Relaxed));
        run::<()>(&url, &["FLUSHDB"]).await;
        url
    }

    /// The server, to be harmed.
    pub(crate) fn private(&self) -> &Server {
        self.private.as_ref().expect("only a server that the tests started can be harmed")
    }

    /// Starts the server again on the same port and data; ends it first if it still runs.
    pub(crate) async fn restart(&self) {
        self.private().restart(answers).await;
    }
}

/// Runs a command.
pub(crate) async fn run<T: FromRedisValue>(url: &str, words: &[&str]) -> T {
    let client = Client::open(url).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("the server");
    let mut command = cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(*word);
    });
    command.query_async(&mut connection).await.expect("an answer")
}

fn address(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

async fn answers(port: u16) -> bool {
    let client = Client::open(address(port)).expect("an address");
    let Ok(mut connection) = client.get_multiplexed_async_connection().await else { return false };
    cmd("PING").query_async::<String>(&mut connection).await.is_ok()
}

fn program(folder: &Path, port: u16) -> Vec<OsString> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let find = || find_program(&["redis-server", "valkey-server"], &[]);
        let found = find().or_else(|| debian::install("redis-server").then(find).flatten());
        found.unwrap_or_else(|| {
            panic!(
                "these tests need Redis: install redis-server (it was not found and could not be \
                 installed, which needs root and apt-get)"
            )
        })
    });
    let mut words: Vec<OsString> = vec![program.into(), "--port".into(), port.to_string().into()];
    words.extend(["--dir".into(), folder.into()]);
    words.extend(
        [
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--databases",
            "1000",
        ]
        .map(OsString::from),
    );
    words
}
