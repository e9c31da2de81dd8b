//! Runs Redis; `RAINDROP_TEST_REDIS_URL` (`redis://user:password@host:port`, no database) names
//! another shared server. That server must have 1000 databases, and the tests empty those that they
//! use.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use async_trait::async_trait;
use redis::{
    AsyncConnectionConfig, Client, FromRedisValue, RedisResult, aio::MultiplexedConnection, cmd,
};
use tokio::sync::OnceCell;

use super::{
    programs,
    server::{Engine, Server},
};

const PATIENCE: Duration = Duration::from_secs(300);

/// Redis servers.
#[derive(Debug)]
pub(crate) struct Redis;

#[async_trait]
impl Engine for Redis {
    fn name(&self) -> &'static str {
        "Redis"
    }

    fn polite(&self) -> &'static str {
        "TERM"
    }

    fn shared(&self) -> (&'static OnceCell<Server>, &'static str) {
        static SHARED: OnceCell<Server> = OnceCell::const_new();
        (&SHARED, "RAINDROP_TEST_REDIS_URL")
    }

    fn program(&self, folder: &Path, port: u16) -> Vec<OsString> {
        let mut words: Vec<OsString> =
            vec![program().into(), "--port".into(), port.to_string().into()];
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

    fn address(&self, _folder: &Path, port: u16) -> String {
        format!("redis://127.0.0.1:{port}")
    }

    async fn answers(&self, address: &str) -> bool {
        let Ok(mut connection) = connect(address).await else { return false };
        cmd("PING").query_async::<String>(&mut connection).await.is_ok()
    }

    async fn make_database(&self, address: &str, number: u32) -> String {
        let url = format!("{address}/{number}");
        run::<()>(&url, &["FLUSHDB"]).await;
        url
    }
}

/// Sentinels, which watch the servers that `SENTINEL MONITOR` names.
#[derive(Debug)]
pub(crate) struct Sentinel;

#[async_trait]
impl Engine for Sentinel {
    fn name(&self) -> &'static str {
        "Redis Sentinel"
    }

    fn polite(&self) -> &'static str {
        "TERM"
    }

    fn shared(&self) -> (&'static OnceCell<Server>, &'static str) {
        panic!("a Sentinel watches the servers of one test")
    }

    fn fill(&self, folder: &Path) {
        // Sentinel keeps there which servers it watches.
        fs::write(folder.join("sentinel.conf"), "").expect("a file");
    }

    fn program(&self, folder: &Path, port: u16) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![program().into(), folder.join("sentinel.conf").into()];
        words.extend(["--sentinel", "--bind", "127.0.0.1", "--port"].map(OsString::from));
        words.push(port.to_string().into());
        words
    }

    fn address(&self, folder: &Path, port: u16) -> String {
        Redis.address(folder, port)
    }

    async fn answers(&self, address: &str) -> bool {
        Redis.answers(address).await
    }

    async fn make_database(&self, _: &str, _: u32) -> String {
        panic!("a Sentinel has no databases")
    }
}

/// Returns the server's program, which is Sentinel's as well.
pub(super) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let find = || programs::find(&["redis-server", "valkey-server"], &[]);
        find().expect("these tests need Redis: `make deps` names the package")
    })
}

/// Connects with time-outs for a busy machine; the client's own are 500 ms and 1 s.
async fn connect(url: &str) -> RedisResult<MultiplexedConnection> {
    let patient = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let client = Client::open(url).expect("an address");
    client.get_multiplexed_async_connection_with_config(&patient).await
}

/// Runs a command.
pub(crate) async fn run<T: FromRedisValue>(url: &str, words: &[&str]) -> T {
    try_run(url, words).await.expect("an answer")
}

/// Runs a command that may fail.
pub(crate) async fn try_run<T: FromRedisValue>(url: &str, words: &[&str]) -> RedisResult<T> {
    let mut connection = connect(url).await?;
    let mut command = cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(*word);
    });
    command.query_async(&mut connection).await
}
