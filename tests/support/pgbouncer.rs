//! Runs PgBouncer, a pooler between clients and a PostgreSQL server.

use std::{fs, path::PathBuf, sync::OnceLock, time::Duration};

use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, PgConnection, postgres::PgConnectOptions,
};

use super::{
    free_port, poll,
    postgres::{give_away, unprivileged},
    programs,
    server::Server,
    watched::Watched,
};

const STARTING: Duration = Duration::from_secs(300);

/// A running pooler.
#[derive(Debug)]
pub(crate) struct PgBouncer {
    port: u16,
    _program: Watched,
}

impl PgBouncer {
    /// Starts a pooler in front of a server, in this mode and with these further settings.
    pub(crate) async fn start(server: &Server, mode: &str, settings: &str) -> Self {
        let (program, port) = (Watched::new("INT"), free_port());
        let file = program.folder().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\nadmin_users = postgres\npool_mode = {mode}\n{settings}\n",
            server.port()
        );
        fs::write(&file, text).expect("a file");
        give_away(program.folder());
        let mut words = unprivileged(installed());
        words.push(file.into());
        program.run(&words);
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        poll::until(STARTING, "PgBouncer answers", async || {
            assert!(!program.has_ended(), "PgBouncer did not start:\n{}", program.log());
            let connection = PgConnection::connect_with(&options(&url)).await.ok()?;
            connection.close().await.ok()
        })
        .await;
        Self { port, _program: program }
    }

    /// Changes its mode, as an operator does while it runs.
    pub(crate) async fn set_mode(&self, mode: &str) {
        let url = format!("postgres://postgres@127.0.0.1:{}/pgbouncer", self.port);
        let mut console = PgConnection::connect_with(&options(&url)).await.expect("its console");
        let sql = format!("SET pool_mode = '{mode}'");
        console.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.expect("another mode");
    }

    /// Returns the address of a database through the pooler.
    pub(crate) fn through(&self, url: &str) -> String {
        let (_, database) = url.rsplit_once('/').expect("a database");
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

/// Returns another application's options for an address through a pooler, which does not know every
/// parameter.
pub(crate) fn options(url: &str) -> PgConnectOptions {
    url.parse::<PgConnectOptions>().expect("an address").extra_float_digits(None)
}

fn installed() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let find = || programs::find(&["pgbouncer"], &[]);
        find().expect("these tests need PgBouncer: `make deps` names the package")
    })
}
