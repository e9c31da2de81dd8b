//! MariaDB servers of the tests' own: in temporary folders, on free ports, gone with the process.
//!
//! Without MariaDB on the machine, and as root on Debian or Ubuntu, it is installed. With
//! `RAINDROP_TEST_MYSQL_URL` (`mysql://user:password@host:port`, no database) the shared server
//! is that one, so that the same tests run against MySQL proper.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};
use tempfile::TempDir;
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep, timeout},
};

use super::{debian, faketime, free_port};

const STARTING: Duration = Duration::from_secs(60);

/// Runs the server and outlives this process by a moment: when its standard input closes, for
/// whatever reason, it kills the server and removes the folder.
const WATCHER: &str = r#"
folder=$1; shift
"$@" </dev/null >"$folder/log" 2>&1 &
server=$!
echo "$server"
read -r order
case "$order" in
  stop) kill -TERM "$server" ;;
  *) kill -KILL "$server" ;;
esac
kill -CONT "$server" 2>/dev/null
wait "$server" 2>/dev/null
[ -n "$order" ] || rm -rf "$folder"
"#;

/// A server.
#[derive(Debug)]
pub(crate) struct Mariadb {
    address: String,
    private: Option<Private>,
}

#[derive(Debug)]
struct Private {
    folder: TempDir,
    port: u16,
    has_clock: bool,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    watcher: Child,
    server: Pid,
}

impl Private {
    fn clock(&self) -> PathBuf {
        self.folder.path().join("clock")
    }
}

impl Mariadb {
    /// The server that the tests of this process share: for tests that do it no harm.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Mariadb> = OnceCell::const_new();
        SHARED
            .get_or_init(async || match env::var("RAINDROP_TEST_MYSQL_URL") {
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
        Self::start_with(false).await
    }

    /// Like [`Self::start`], with a clock that [`Self::shift_clock`] moves.
    pub(crate) async fn start_with_clock() -> Self {
        Self::start_with(true).await
    }

    async fn start_with(has_clock: bool) -> Self {
        let programs = Programs::get();
        // Somebody may take a free port before the server does.
        for _ in 0..5 {
            let folder = tempfile::Builder::new().prefix("raindrop-mariadb-").tempdir();
            let folder = folder.expect("a temporary folder");
            programs.copy_data(&folder.path().join("data"));
            let port = free_port();
            let private = Private { folder, port, has_clock, running: Mutex::new(None) };
            let address = format!("mysql://root@127.0.0.1:{port}");
            let server = Self { address, private: Some(private) };
            if server.try_run().await {
                return server;
            }
        }
        panic!("mariadbd did not start five times in a row")
    }

    /// The address of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.address)
    }

    /// Makes an empty database and returns its address.
    pub(crate) async fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("raindrop_test_{}_{number}", std::process::id());
        self.run(&format!("DROP DATABASE IF EXISTS {name}")).await;
        self.run(&format!("CREATE DATABASE {name}")).await;
        self.url(&name)
    }

    /// Runs a statement as the administrator.
    pub(crate) async fn run(&self, sql: &str) {
        let mut connection = MySqlConnection::connect(&self.address).await.expect("the server");
        connection.execute(AssertSqlSafe(sql)).await.expect(sql);
        connection.close().await.expect("a polite end");
    }

    /// The server's port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.private().port
    }

    /// Ends the server as a power failure would.
    pub(crate) fn kill9(&self) {
        self.end("kill");
    }

    /// Ends the server as an operator would.
    pub(crate) fn stop(&self) {
        self.end("stop");
    }

    /// Starts the server again on the same port and data; ends it first if it still runs.
    pub(crate) async fn restart(&self) {
        self.kill9();
        assert!(self.try_run().await, "mariadbd did not start again:\n{}", self.log());
    }

    /// Stops the server's clockwork: it accepts connections and answers nothing.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// The opposite of [`Self::freeze`].
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Shifts the server's clock against the machine's, by seconds.
    pub(crate) fn shift_clock(&self, seconds: f64) {
        faketime::shift(&self.private().clock(), seconds);
    }

    fn private(&self) -> &Private {
        self.private.as_ref().expect("only a server that the tests started can be harmed")
    }

    fn signal(&self, signal: Signal) {
        let running = lock(&self.private().running);
        let server = running.as_ref().expect("the server runs").server;
        kill_process(server, signal).expect("the server is our child's child");
    }

    fn end(&self, order: &str) {
        let Some(mut running) = lock(&self.private().running).take() else { return };
        let mut orders = running.watcher.stdin.take().expect("a pipe");
        writeln!(orders, "{order}").expect("the watcher waits for orders");
        running.watcher.wait().expect("the watcher ends after the server");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.private().folder.path().join("log")).unwrap_or_default()
    }

    /// Whether the server came up.
    async fn try_run(&self) -> bool {
        let private = self.private();
        let running = Programs::get().run(private);
        let server = running.server;
        *lock(&private.running) = Some(running);
        let deadline = Instant::now() + STARTING;
        while Instant::now() < deadline {
            let attempt = timeout(STARTING, MySqlConnection::connect(&self.address)).await;
            if let Ok(Ok(connection)) = attempt {
                connection.close().await.expect("a polite end");
                return true;
            }
            if has_ended(server) {
                self.kill9();
                return false;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("mariadbd does not answer:\n{}", self.log())
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        if self.private.is_some() {
            self.kill9();
        }
    }
}

/// Gone, or waiting for its parent to notice.
fn has_ended(server: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", server.as_raw_nonzero()));
    match status {
        Ok(status) => status.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z')),
        Err(_) => rustix::process::test_kill_process(server).is_err(),
    }
}

/// The installed programs and a data folder to copy.
#[derive(Debug)]
struct Programs {
    mariadbd: PathBuf,
    data: PathBuf,
}

impl Programs {
    fn get() -> &'static Self {
        static PROGRAMS: OnceLock<Programs> = OnceLock::new();
        PROGRAMS.get_or_init(|| {
            let (mariadbd, install_db) = find().or_else(|| debian::install("mariadb-server").then(find).flatten()).unwrap_or_else(|| {
                panic!(
                    "these tests need MariaDB: install mariadb-server (found neither mariadbd nor \
                     mariadb-install-db, and could not install them: that needs root and apt-get)"
                )
            });
            let data = initialised(&mariadbd, &install_db);
            Self { mariadbd, data }
        })
    }

    fn copy_data(&self, to: &Path) {
        succeed(Command::new("cp").arg("-R").arg(&self.data).arg(to));
    }

    fn run(&self, private: &Private) -> Running {
        let (folder, port) = (private.folder.path(), private.port);
        let mut command = Command::new("sh");
        command.args(["-c", WATCHER, "sh"]).arg(folder).arg(&self.mariadbd).arg("--no-defaults");
        command.arg(format!("--datadir={}", folder.join("data").display()));
        command.arg(format!("--port={port}")).args(as_root());
        command.args([
            "--socket=server.sock",
            "--pid-file=server.pid",
            "--bind-address=127.0.0.1",
            "--skip-networking=0",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-flush-method=nosync",
            "--innodb-doublewrite=0",
            "--skip-log-bin",
            "--innodb-buffer-pool-size=64M",
            "--innodb-fast-shutdown=2",
            "--performance-schema=0",
            "--max-connections=500",
            "--character-set-server=utf8mb4",
        ]);
        if private.has_clock {
            command.envs(faketime::environment(&private.clock()));
        }
        // Its own group: an interrupt at the keyboard must not end the watcher before us.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut watcher = command.spawn().expect("a shell");
        let mut line = String::new();
        let answers = watcher.stdout.take().expect("a pipe");
        BufReader::new(answers).read_line(&mut line).expect("the server's process id");
        let server = line.trim().parse().ok().and_then(Pid::from_raw).expect("a process id");
        Running { watcher, server }
    }
}

fn as_root() -> Option<&'static str> {
    geteuid().is_root().then_some("--user=root")
}

fn find() -> Option<(PathBuf, PathBuf)> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
    let folders: Vec<_> = env::split_paths(&path).chain(usual.map(PathBuf::from)).collect();
    let program = |names: &[&str]| {
        let mut candidates =
            folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
        candidates.find(|candidate| candidate.is_file())
    };
    Some((program(&["mariadbd", "mysqld"])?, program(&["mariadb-install-db", "mysql_install_db"])?))
}

/// A fresh data folder, made once for each version and kept beside the build's files.
fn initialised(mariadbd: &Path, install_db: &Path) -> PathBuf {
    let version = Command::new(mariadbd).arg("--version").output().expect("mariadbd runs").stdout;
    let version: String = String::from_utf8_lossy(&version)
        .chars()
        .filter(|character| character.is_ascii_alphanumeric() || *character == '.')
        .collect();
    let user = geteuid().as_raw();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let data = kept.join(format!("mariadb-{user}-{version}"));
    if data.is_dir() {
        return data;
    }
    fs::create_dir_all(kept).expect("a folder for the build's files");
    let fresh = tempfile::tempdir_in(kept).expect("a temporary folder");
    let fresh_data = fresh.path().join("data");
    succeed(
        Command::new(install_db)
            .arg("--no-defaults")
            .arg(format!("--datadir={}", fresh_data.display()))
            .args(as_root())
            .args([
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
                "--innodb-log-file-size=16M",
                "--innodb-flush-method=nosync",
            ]),
    );
    // Another process may have been faster; its folder is as good.
    if fs::rename(&fresh_data, &data).is_err() {
        assert!(data.is_dir(), "{} cannot be written", data.display());
    }
    data
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
