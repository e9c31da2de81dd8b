//! Runs a program that is gone with the process that started it, whichever way that ends.

use std::{
    ffi::OsString,
    fmt, fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::Instant;

/// Runs the server and outlives this process by a moment: when its standard input closes, for
/// whatever reason, it kills the server and removes the folder. A server's own children are gone
/// before the script says so.
const WATCHER: &str = r#"
# The system sends it to the group of a stopped server when the tests end.
trap : HUP
folder=$1; polite=$2; shift 2
"$@" </dev/null >>"$folder/log" 2>&1 &
server=$!
echo "$server"
read -r order
# A stopped server starts no further child.
[ "$order" = stop ] || kill -STOP "$server" 2>/dev/null
children=$(cat "/proc/$server/task/$server/children" 2>/dev/null)
case "$order" in
  stop) kill "-$polite" "$server" ;;
  *) kill -KILL "$server" $children ;;
esac
kill -CONT "$server" $children 2>/dev/null
wait "$server" 2>/dev/null
for child in $children; do
  tries=0
  while grep -qs '^State:.[^ZX]' "/proc/$child/status" && [ $tries -lt 200 ]; do
    tries=$((tries + 1))
    sleep 0.05
  done
done
[ -n "$order" ] || rm -rf "$folder"
"#;

/// How long a program may take to end in order before it is killed.
const STOPPING: Duration = Duration::from_secs(300);

/// A program with a temporary folder, which tests may end and run again.
pub(crate) struct Watched {
    folder: TempDir,
    polite: &'static str,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    watcher: Child,
    server: Pid,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Watched {
    /// Returns a program that the signal `polite` ends in order; it does not run yet.
    pub(crate) fn new(polite: &'static str) -> Self {
        let folder = tempfile::Builder::new().prefix("raindrop-test-").tempdir();
        Self { folder: folder.expect("a temporary folder"), polite, running: Mutex::new(None) }
    }

    /// Returns the program's folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the program with these arguments.
    pub(crate) fn run(&self, words: &[OsString]) {
        let folder = self.folder.path();
        let mut command = Command::new("sh");
        command.args(["-c", WATCHER, "sh"]).arg(folder).arg(self.polite);
        command.args(words).current_dir(folder);
        // A separate process group: an interrupt at the keyboard must not end the watcher before
        // the tests.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut watcher = command.spawn().expect("a shell");
        let mut line = String::new();
        let answers = watcher.stdout.take().expect("a pipe");
        BufReader::new(answers).read_line(&mut line).expect("the server's process id");
        let server = line.trim().parse().ok().and_then(Pid::from_raw).expect("a process id");
        *self.lock() = Some(Running { watcher, server });
    }

    /// Ends the program as a power failure would.
    pub(crate) fn kill9(&self) {
        self.end("kill");
    }

    /// Ends the program as an operator would.
    pub(crate) fn stop(&self) {
        self.end("stop");
    }

    /// Stops the program's processes.
    pub(crate) fn freeze(&self) {
        let server = self.running();
        // The server first, so that it starts no further child.
        stop(server);
        children(server).into_iter().for_each(stop);
    }

    /// The opposite of [`Self::freeze`].
    pub(crate) fn thaw(&self) {
        let server = self.running();
        children(server).into_iter().for_each(|child| signal(child, Signal::CONT));
        signal(server, Signal::CONT);
    }

    /// Returns whether the program has ended, or waits for its parent to notice.
    pub(crate) fn has_ended(&self) -> bool {
        let server = self.running();
        let status = fs::read_to_string(format!("/proc/{}/stat", server.as_raw_nonzero()));
        match status {
            Ok(status) => status.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z')),
            Err(_) => rustix::process::test_kill_process(server).is_err(),
        }
    }

    /// Returns the program's output.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn running(&self) -> Pid {
        self.lock().as_ref().expect("the program runs").server
    }

    fn end(&self, order: &str) {
        let Some(mut running) = self.lock().take() else { return };
        let mut orders = running.watcher.stdin.take().expect("a pipe");
        writeln!(orders, "{order}").expect("the watcher waits for orders");
        let deadline = Instant::now() + STOPPING;
        while running.watcher.try_wait().expect("our child").is_none() {
            if Instant::now() > deadline {
                signal(running.server, Signal::KILL);
            }
            sleep(Duration::from_millis(2));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.kill9();
    }
}

fn signal(process: Pid, signal: Signal) {
    // A child may have ended meanwhile.
    let _ = kill_process(process, signal);
}

/// Stops a process, and waits until no thread of it runs: threads need not notice at once.
fn stop(process: Pid) {
    signal(process, Signal::STOP);
    let runs = |thread: fs::DirEntry| {
        let status = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_some_and(|state| "RSD".contains(state))
    };
    let threads = || fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    while threads().is_ok_and(|threads| threads.flatten().any(runs)) {
        sleep(Duration::from_millis(1));
    }
}

fn children(server: Pid) -> Vec<Pid> {
    let server = server.as_raw_nonzero();
    let listed = fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?)).collect()
}
