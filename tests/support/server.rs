//! Database servers of the tests' own: in temporary folders, on free ports, gone with the process.

use std::{
    env,
    ffi::OsString,
    fmt, fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use super::free_port;

const STARTING: Duration = Duration::from_secs(60);

/// Runs the server and outlives this process by a moment: when its standard input closes, for
/// whatever reason, it kills the server and removes the folder. A server's own children are gone
/// before it says so.
const WATCHER: &str = r#"
folder=$1; polite=$2; shift 2
"$@" </dev/null >>"$folder/log" 2>&1 &
server=$!
echo "$server"
read -r order
children=$(cat "/proc/$server/task/$server/children" 2>/dev/null)
case "$order" in
  stop) kill "-$polite" "$server" ;;
  *) kill -KILL "$server" $children ;;
esac
kill -CONT "$server" $children 2>/dev/null
wait "$server" 2>/dev/null
for child in $children; do
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    grep -qs '^State:.[^ZX]' "/proc/$child/status" || break
    sleep 0.05
  done
done
[ -n "$order" ] || rm -rf "$folder"
"#;

/// How a kind of server is started.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// The signal that ends it as an operator would.
    pub(crate) polite: &'static str,
    /// Fills a new folder.
    pub(crate) fill: fn(&Path),
    /// The program and its arguments, for a folder and a port.
    pub(crate) program: fn(&Path, u16) -> Vec<OsString>,
}

/// A server for one test binary or one test, which may do to it what it likes.
pub(crate) struct Server {
    kind: Kind,
    folder: TempDir,
    port: u16,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    watcher: Child,
    server: Pid,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.kind.name).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server; `answers` tells whether the one on a port does.
    pub(crate) async fn start(kind: Kind, answers: impl AsyncFn(u16) -> bool) -> Self {
        // Somebody may take a free port before the server does.
        for _ in 0..5 {
            let folder = tempfile::Builder::new().prefix("raindrop-test-").tempdir();
            let folder = folder.expect("a temporary folder");
            (kind.fill)(folder.path());
            let server = Self { kind, folder, port: free_port(), running: Mutex::new(None) };
            if server.try_run(&answers).await {
                return server;
            }
        }
        panic!("{} did not start five times in a row", kind.name)
    }

    /// The server's folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server's port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
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
    pub(crate) async fn restart(&self, answers: impl AsyncFn(u16) -> bool) {
        self.kill9();
        let name = self.kind.name;
        assert!(self.try_run(answers).await, "{name} did not start again:\n{}", self.log());
    }

    /// Stops the server's clockwork: it accepts connections and answers nothing.
    pub(crate) fn freeze(&self) {
        let server = self.running();
        // The server first, so that it starts no further child.
        signal(server, Signal::STOP);
        children(server).into_iter().for_each(|child| signal(child, Signal::STOP));
    }

    /// The opposite of [`Self::freeze`].
    pub(crate) fn thaw(&self) {
        let server = self.running();
        children(server).into_iter().for_each(|child| signal(child, Signal::CONT));
        signal(server, Signal::CONT);
    }

    fn running(&self) -> Pid {
        lock(&self.running).as_ref().expect("the server runs").server
    }

    fn end(&self, order: &str) {
        let Some(mut running) = lock(&self.running).take() else { return };
        let mut orders = running.watcher.stdin.take().expect("a pipe");
        writeln!(orders, "{order}").expect("the watcher waits for orders");
        running.watcher.wait().expect("the watcher ends after the server");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Whether the server came up.
    async fn try_run(&self, answers: impl AsyncFn(u16) -> bool) -> bool {
        let running = self.run();
        let server = running.server;
        *lock(&self.running) = Some(running);
        let deadline = Instant::now() + STARTING;
        while Instant::now() < deadline {
            if let Ok(true) = timeout(STARTING, answers(self.port)).await {
                return true;
            }
            if has_ended(server) {
                self.kill9();
                return false;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{} does not answer:\n{}", self.kind.name, self.log())
    }

    fn run(&self) -> Running {
        let folder = self.folder.path();
        let mut command = Command::new("sh");
        command.args(["-c", WATCHER, "sh"]).arg(folder).arg(self.kind.polite);
        command.args((self.kind.program)(folder, self.port)).current_dir(folder);
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

impl Drop for Server {
    fn drop(&mut self) {
        self.kill9();
    }
}

fn signal(process: Pid, signal: Signal) {
    // A child may have ended meanwhile.
    let _ = kill_process(process, signal);
}

fn children(server: Pid) -> Vec<Pid> {
    let server = server.as_raw_nonzero();
    let listed = fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?)).collect()
}

/// Gone, or waiting for its parent to notice.
fn has_ended(server: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", server.as_raw_nonzero()));
    match status {
        Ok(status) => status.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z')),
        Err(_) => rustix::process::test_kill_process(server).is_err(),
    }
}

/// The first of these programs, on the path, in the usual folders, or in `more`.
pub(crate) fn find_program(names: &[&str], more: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
    env::split_paths(&path)
        .chain(usual.map(PathBuf::from))
        .chain(more.iter().cloned())
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|candidate| candidate.is_file())
}

/// A fresh data folder, made once for each version and kept beside the build's files; `make`
/// fills the folder that it is given.
pub(crate) fn initialised(program: &Path, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let version = Command::new(program).arg("--version").output().expect("it runs").stdout;
    let version: String = String::from_utf8_lossy(&version)
        .chars()
        .filter(|character| character.is_ascii_alphanumeric() || *character == '.')
        .collect();
    let user = rustix::process::geteuid().as_raw();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let data = kept.join(format!("{name}-{user}-{version}"));
    if data.is_dir() {
        return data;
    }
    fs::create_dir_all(kept).expect("a folder for the build's files");
    let fresh = tempfile::tempdir().expect("a temporary folder");
    make(&fresh.path().join("data"));
    // Moved in one step, so that nobody finds half of it.
    let copy = tempfile::tempdir_in(kept).expect("a temporary folder");
    let copied = copy.path().join("data");
    succeed(Command::new("cp").arg("-R").arg(fresh.path().join("data")).arg(&copied));
    // Another process may have been faster; its folder is as good.
    if fs::rename(&copied, &data).is_err() {
        assert!(data.is_dir(), "{} cannot be written", data.display());
    }
    data
}

pub(crate) fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
