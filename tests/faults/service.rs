//! Runs `raindrop` processes for tests: on free ports, in temporary folders, gone with the test
//! whichever way that ends.

use std::{
    ffi::OsString,
    fs,
    net::SocketAddr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use reqwest::{Client, Response, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{PLANTED, faketime, free_port, guardian, hung_log, poll};

/// How long a process may take for anything that it should do at once, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// How long a client waits for an answer, of a service that may be frozen.
pub(crate) const GIVES_UP: Duration = Duration::from_secs(60);

/// The settings of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    settings: Vec<(String, String)>,
    folder: Option<PathBuf>,
    clock_shift: Option<f64>,
    ulimit: Option<String>,
    stderr: Option<Arc<OwnedFd>>,
    hanging: Option<&'static str>,
    environment: Vec<(&'static str, OsString)>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets a configuration key, `lease.ttl` for example.
    ///
    /// Adds a planted password to addresses of servers that ask for none.
    pub(crate) fn set(mut self, key: &str, value: impl ToString) -> Self {
        let name = format!("RAINDROP__{}", key.to_uppercase().replace('.', "__"));
        let value = value
            .to_string()
            .replace("postgres://postgres@", &format!("postgres://postgres:{PLANTED}@"));
        self.settings.retain(|(given, _)| *given != name);
        self.settings.push((name, value));
        self
    }

    /// Runs in this folder, which several processes may share; by default in a new one.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Names the configuration file, which these settings override.
    pub(crate) fn config_file(mut self, file: &Path) -> Self {
        self.environment.push(("RAINDROP_CONFIG", file.into()));
        self
    }

    /// Limits the number of files that the process may open.
    pub(crate) fn open_files(mut self, most: u32) -> Self {
        self.ulimit = Some(format!("-n {most}"));
        self
    }

    /// Lets the process write core dumps, as far as this process may allow it.
    pub(crate) fn core_dumps(mut self) -> Self {
        self.ulimit = Some("-S -c $(ulimit -H -c)".to_owned());
        self
    }

    /// Sends the log of the process there instead of to a file.
    pub(crate) fn stderr(mut self, to: impl Into<OwnedFd>) -> Self {
        self.stderr = Some(Arc::new(to.into()));
        self
    }

    /// Gives the process a clock that [`Service::shift_clock`] moves.
    pub(crate) fn with_clock(self) -> Self {
        self.with_shifted_clock(0.0)
    }

    /// Like [`Self::with_clock`], shifted by this many seconds from the start.
    pub(crate) fn with_shifted_clock(mut self, seconds: f64) -> Self {
        self.clock_shift = Some(seconds);
        self
    }

    /// Lets [`Service::hang_disk`] stop writes to files whose path contains this.
    pub(crate) fn with_hanging_disk(mut self, part: &'static str) -> Self {
        self.hanging = Some(part);
        self
    }

    /// Names a service manager, and after which silence it would restart the process.
    pub(crate) fn service_manager(mut self, socket: &Path, watchdog: Duration) -> Self {
        let limit = watchdog.as_micros().to_string().into();
        self.environment.extend([("NOTIFY_SOCKET", socket.into()), ("WATCHDOG_USEC", limit)]);
        self
    }

    /// Lets [`Service::hang_disk`] stop reads, too.
    pub(crate) fn with_hanging_reads(mut self, part: &'static str) -> Self {
        self.environment.push(("HANG_READS", "yes".into()));
        self.with_hanging_disk(part)
    }

    /// Starts the service and waits until it answers.
    pub(crate) async fn start(self) -> Service {
        let mut service = self.spawn();
        poll::until(PATIENCE, "the service answers", async || {
            if let Some(status) = service.child.try_wait().expect("our child") {
                panic!("it ended with {status}:\n{}", service.log());
            }
            service.get("/livez").await.ok()
        })
        .await;
        service
    }

    /// Starts the service and waits until it issues IDs.
    pub(crate) async fn start_leased(self) -> Service {
        let service = self.start().await;
        service.until_ready().await;
        service
    }

    /// Starts the service and does not wait.
    pub(crate) fn spawn(self) -> Service {
        let own = tempfile::tempdir().expect("a temporary folder");
        let folder = self.folder.clone().unwrap_or_else(|| own.path().to_owned());
        let port = free_port();
        let program = env!("CARGO_BIN_EXE_raindrop");
        let mut command = match self.ulimit {
            None => Command::new(program),
            Some(ulimit) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!("ulimit {ulimit} && exec \"$0\""), program]);
                shell
            }
        };
        command.env_clear().envs(self.settings).envs(self.environment).current_dir(folder);
        command.env("RAINDROP__HTTP__LISTEN", format!("127.0.0.1:{port}"));
        let clock = own.path().join("clock");
        if let Some(seconds) = self.clock_shift {
            command.envs(faketime::environment(&clock));
            faketime::shift(&clock, seconds);
        }
        if let Some(part) = self.hanging {
            command.envs(hung_log::environment(own.path(), part));
        }
        let log = own.path().join("log");
        let file = fs::File::create(&log).expect("a log file");
        let stderr = match self.stderr {
            Some(to) => to.try_clone().expect("a second handle").into(),
            None => Stdio::from(file.try_clone().expect("a second handle")),
        };
        command.stdout(file).stderr(stderr);
        let child = command.stdin(Stdio::null()).spawn().expect("the service starts");
        guardian::guard(child.id());
        let base = format!("http://127.0.0.1:{port}");
        Service { child, base, client: client(), own, log, clock }
    }
}

/// A client that gives up: a test must fail rather than hang.
pub(crate) fn client() -> Client {
    Client::builder().timeout(GIVES_UP).build().expect("nothing unusual")
}

/// A running process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    base: String,
    client: Client,
    own: TempDir,
    log: PathBuf,
    clock: PathBuf,
}

impl Service {
    pub(crate) fn address(&self) -> SocketAddr {
        self.base["http://".len()..].parse().expect("an address")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Result<Response> {
        self.client.get(self.url(path)).send().await
    }

    /// The JSON of an answer, whatever its status.
    pub(crate) async fn json(&self, path: &str) -> (StatusCode, Value) {
        let answer = self.get(path).await.expect("an answer");
        (answer.status(), answer.json().await.expect("JSON"))
    }

    /// Requests IDs that the service must issue.
    pub(crate) async fn ids(&self, code: &str, count: u32) -> Vec<u64> {
        let (status, body) = self.json(&format!("/ids/{code}?n={count}")).await;
        assert_eq!(status, StatusCode::OK, "{body}\n{}", self.log());
        parse_ids(&body)
    }

    /// Returns what `/health` reports of the default namespace.
    pub(crate) async fn health(&self) -> Value {
        let (_, body) = self.json("/health").await;
        body["namespaces"]["default"].clone()
    }

    /// Returns whether the service has leased another worker id than this one.
    pub(crate) async fn has_left(&self, worker: u64) -> bool {
        self.health().await["worker_id"].as_u64().is_some_and(|present| present != worker)
    }

    pub(crate) async fn worker(&self) -> u64 {
        self.health().await["worker_id"].as_u64().expect("leased")
    }

    pub(crate) async fn lane(&self) -> u64 {
        self.health().await["lane"].as_u64().expect("leased")
    }

    pub(crate) async fn until_ready(&self) {
        poll::until(PATIENCE, "the service is ready", async || {
            let answer = self.get("/readyz").await.ok()?;
            (answer.status() == StatusCode::OK).then_some(())
        })
        .await;
    }

    /// Returns the sum of a metric over the samples whose text contains `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &str) -> f64 {
        let text = self.get("/metrics").await.expect("an answer").text().await.expect("text");
        let samples = text.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Shifts the clock of the process against the machine's, by seconds.
    pub(crate) fn shift_clock(&self, seconds: impl Into<f64>) {
        faketime::shift(&self.clock, seconds.into());
    }

    /// Makes the writes of [`Setup::with_hanging_disk`] hang from now on.
    pub(crate) fn hang_disk(&self) {
        hung_log::hang(self.own.path());
    }

    /// Lets these writes continue.
    pub(crate) fn mend_disk(&self) {
        hung_log::resume(self.own.path());
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("our child runs");
    }

    /// Returns how the process ended, if it did.
    pub(crate) fn try_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our child")
    }

    /// Waits for the end of the process.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        poll::until(PATIENCE, "the process ends", async || {
            self.child.try_wait().expect("our child")
        })
        .await
    }

    /// Ends the process as a crash would.
    pub(crate) async fn kill9(mut self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    /// Ends the process in order.
    pub(crate) async fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.ended().await;
        assert!(status.success(), "{status}\n{}", self.log());
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the log has this text: a separate thread writes it.
    pub(crate) async fn logged(&self, text: &str) {
        poll::until(PATIENCE, text, async || self.log().contains(text).then_some(())).await;
    }

    /// The folder of this process.
    pub(crate) fn folder(&self) -> &Path {
        self.own.path()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        guardian::release(self.child.id());
        if !std::thread::panicking() {
            assert_shows_no_secret(&self.log());
        }
    }
}

/// Returns the IDs of an `/ids` or `/id` answer.
pub(crate) fn parse_ids(body: &Value) -> Vec<u64> {
    let parse = |id: &Value| id.as_str().and_then(|id| id.parse().ok()).expect("a decimal string");
    match body["ids"].as_array() {
        Some(ids) => ids.iter().map(parse).collect(),
        None => vec![parse(&body["id"])],
    }
}

/// Runs the command to its end, and returns its exit code, standard output and standard error.
pub(crate) fn run(
    arguments: &[&str],
    settings: &[(&str, &str)],
    folder: &Path,
) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raindrop"));
    command.args(arguments).env_clear().envs(settings.iter().copied()).current_dir(folder);
    let output = command.output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    assert_shows_no_secret(&String::from_utf8_lossy(&output.stdout));
    assert_shows_no_secret(&String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Checks that a text shows no planted secret: nothing that a process writes may contain one.
pub(crate) fn assert_shows_no_secret(text: &str) {
    let shown = text.lines().find(|line| line.contains(PLANTED));
    assert_eq!(shown, None, "a secret is shown");
}

/// Returns a number from the environment of the run, if it has one.
pub(crate) fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: must be a number")))
}

/// The machine's clock.
#[expect(clippy::disallowed_methods, reason = "the test compares with the machine's clock")]
pub(crate) fn unix_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.expect("after 1970").as_millis()).expect("fits")
}
