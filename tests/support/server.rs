//! Runs database servers for tests: in temporary folders, on free ports, gone with the process.

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep, timeout},
};

use super::{faketime, free_port, hung_log, watched::Watched};

const STARTING: Duration = Duration::from_secs(300);

/// A kind of database server. If it is not installed, the tests install it, as root on Debian or
/// Ubuntu.
#[async_trait]
pub(crate) trait Engine: fmt::Debug + Send + Sync {
    /// Its name in figures and messages.
    fn name(&self) -> &'static str;

    /// The signal by which an operator would end it.
    fn polite(&self) -> &'static str;

    /// The shared server of a test binary, and the variable that names another to be used.
    fn shared(&self) -> (&'static OnceCell<Server>, &'static str);

    /// Fills a new folder.
    fn fill(&self, _folder: &Path) {}

    /// Fills a new folder for a standby of the server on this port.
    fn fill_standby(&self, _folder: &Path, _port: u16) {
        panic!("no standby of {} can be made", self.name())
    }

    /// The program and its arguments.
    fn program(&self, folder: &Path, port: u16) -> Vec<OsString>;

    /// A part of the path of its log files.
    fn log(&self) -> &'static str {
        panic!("the log of {} cannot hang", self.name())
    }

    /// Starts the server in which it keeps its data, if that is another one.
    async fn backing(&self) -> Option<Server> {
        None
    }

    /// Returns the argument that names the server in which it keeps its data.
    fn backed_by(&self, _address: &str) -> OsString {
        panic!("{} keeps its data itself", self.name())
    }

    /// Returns the address of a server on 127.0.0.1, without a database.
    fn address(&self, folder: &Path, port: u16) -> String;

    /// Returns whether a server answers.
    async fn answers(&self, address: &str) -> bool;

    /// Makes an empty database and returns its address; no two numbers are equal.
    async fn make_database(&self, address: &str, number: u32) -> String;

    /// Runs a statement as the administrator.
    async fn run(&self, _address: &str, _sql: &str) {
        panic!("{} speaks no SQL", self.name())
    }

    /// Returns the texts in the first column of a query's answer.
    async fn texts(&self, _address: &str, _sql: &str) -> Vec<String> {
        panic!("{} speaks no SQL", self.name())
    }

    /// Returns the end of an address with which a proxy can read requests and answers.
    fn unencrypted(&self) -> &'static str {
        ""
    }

    /// Returns the address of a database through another port of this machine.
    fn through(&self, url: &str, port: u16) -> String {
        let (scheme, rest) = url.split_once("://").expect("an address");
        let (server, database) = rest.split_once('/').expect("a database");
        let user = server.rsplit_once('@').map(|(user, _)| format!("{user}@"));
        let (user, plain) = (user.unwrap_or_default(), self.unencrypted());
        format!("{scheme}://{user}127.0.0.1:{port}/{database}{plain}")
    }
}

/// A server for one test binary or one test.
#[derive(Debug)]
pub(crate) struct Server {
    engine: &'static dyn Engine,
    address: String,
    /// The own process; `None` for a server that the environment names.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    program: Watched,
    port: u16,
    kind: Kind,
    /// The server in which it keeps its data, if that is another one.
    backing: Option<Box<Server>>,
}

/// The properties in which a server differs from the usual one.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    /// Its clock can be shifted.
    has_clock: bool,
    /// Its log device can hang.
    has_log_device: bool,
    /// Added to the usual arguments.
    arguments: &'static [&'static str],
    /// The port of the server that it follows.
    follows: Option<u16>,
}

impl Server {
    /// Returns the server that the tests of this process share: for tests that do it no harm.
    pub(crate) async fn shared(engine: &'static dyn Engine) -> &'static Self {
        let (shared, variable) = engine.shared();
        shared
            .get_or_init(async || match env::var(variable) {
                Ok(url) => {
                    Self { engine, address: url.trim_end_matches('/').to_owned(), own: None }
                }
                Err(_) => Self::start(engine).await,
            })
            .await
    }

    /// Starts a server for one test, which may do anything to it.
    pub(crate) async fn start(engine: &'static dyn Engine) -> Self {
        Self::start_own(engine, Kind::default()).await
    }

    /// Like [`Self::start`], with these further arguments.
    pub(crate) async fn start_with(engine: &'static dyn Engine, arguments: Vec<String>) -> Self {
        // A test has one or two such servers, and then ends.
        let leaked = |argument: String| &*argument.leak();
        let arguments = arguments.into_iter().map(leaked).collect::<Vec<_>>().leak();
        Self::start_own(engine, Kind { arguments, ..Kind::default() }).await
    }

    /// Like [`Self::start`], with a clock that [`Self::shift_clock`] moves.
    pub(crate) async fn start_with_clock(engine: &'static dyn Engine) -> Self {
        Self::start_own(engine, Kind { has_clock: true, ..Kind::default() }).await
    }

    /// Like [`Self::start`], with a log device that [`Self::hang_log`] stops, and with these
    /// further arguments.
    pub(crate) async fn start_with_log_device(
        engine: &'static dyn Engine,
        arguments: &'static [&'static str],
    ) -> Self {
        let kind = Kind { has_log_device: true, arguments, ..Kind::default() };
        Self::start_own(engine, kind).await
    }

    /// Starts a standby of this server.
    pub(crate) async fn start_standby(&self) -> Self {
        let kind = Kind { follows: Some(self.port()), ..Kind::default() };
        Self::start_own(self.engine, kind).await
    }

    async fn start_own(engine: &'static dyn Engine, kind: Kind) -> Self {
        let mut backing = Box::pin(engine.backing()).await.map(Box::new);
        // Another process may take a free port before the server does.
        for _ in 0..5 {
            let (program, port) = (Watched::new(engine.polite()), free_port());
            match kind.follows {
                None => engine.fill(program.folder()),
                Some(port) => engine.fill_standby(program.folder(), port),
            }
            let address = engine.address(program.folder(), port);
            let own = Some(Own { program, port, kind, backing });
            let server = Self { engine, address, own };
            if server.try_run().await {
                return server;
            }
            backing = server.own.and_then(|own| own.backing);
        }
        panic!("{} did not start five times in a row", engine.name())
    }

    /// Returns the address without a database.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the server in which it keeps its data.
    pub(crate) fn backing(&self) -> &Self {
        self.own().backing.as_ref().expect("a server behind it")
    }

    /// Returns the server's port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.own().port
    }

    /// Returns the folder of the server's files.
    pub(crate) fn folder(&self) -> &Path {
        self.own().program.folder()
    }

    /// Makes an empty database and returns its address.
    pub(crate) async fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        self.engine.make_database(&self.address, number).await
    }

    /// Runs a statement as the administrator.
    pub(crate) async fn run(&self, sql: &str) {
        self.engine.run(&self.address, sql).await;
    }

    /// Returns the texts in the first column of a query's answer.
    pub(crate) async fn texts(&self, url: &str, sql: &str) -> Vec<String> {
        self.engine.texts(url, sql).await
    }

    /// Lets no write of the server to its log reach the disk from now on.
    pub(crate) fn hang_log(&self) {
        assert!(self.own().kind.has_log_device, "it has no log device of its own");
        hung_log::hang(self.own().program.folder());
    }

    /// Ends the server as a power failure would while its log device hangs, and starts it again
    /// with one that works.
    pub(crate) async fn restart_with_working_log(&self) {
        self.kill9();
        hung_log::resume(self.own().program.folder());
        self.restart().await;
    }

    /// Shifts the server's clock against the machine's, by seconds.
    pub(crate) fn shift_clock(&self, seconds: f64) {
        assert!(self.own().kind.has_clock, "it has no clock of its own");
        faketime::shift(&clock(self.own().program.folder()), seconds);
    }

    /// Ends the server as a power failure would.
    pub(crate) fn kill9(&self) {
        self.own().program.kill9();
    }

    /// Ends the server as an operator would.
    pub(crate) fn stop(&self) {
        self.own().program.stop();
    }

    /// Stops the server's processes: it accepts connections and answers nothing.
    pub(crate) fn freeze(&self) {
        self.own().program.freeze();
    }

    /// The opposite of [`Self::freeze`].
    pub(crate) fn thaw(&self) {
        self.own().program.thaw();
    }

    /// Starts the server again on the same port and data; ends it first if it still runs.
    pub(crate) async fn restart(&self) {
        self.kill9();
        let name = self.engine.name();
        assert!(self.try_run().await, "{name} did not start again:\n{}", self.own().program.log());
    }

    /// Ends the server as a power failure would, lets the caller fill its folder again, and starts
    /// it again on the same port.
    pub(crate) async fn refill(&self, fill: impl FnOnce(&Path)) {
        self.kill9();
        fill(self.own().program.folder());
        self.restart().await;
    }

    fn own(&self) -> &Own {
        self.own.as_ref().expect("only a server that the tests started can be harmed")
    }

    /// Returns whether the server came up.
    async fn try_run(&self) -> bool {
        let Own { program, port, kind, backing } = self.own();
        let mut words = self.engine.program(program.folder(), *port);
        words.extend(backing.as_ref().map(|backing| self.engine.backed_by(&backing.address)));
        words.extend(kind.arguments.iter().map(OsString::from));
        if kind.has_clock {
            words.splice(0..0, with(faketime::environment(&clock(program.folder()))));
        }
        if kind.has_log_device {
            words.splice(0..0, with(hung_log::environment(program.folder(), self.engine.log())));
        }
        program.run(&words);
        let deadline = Instant::now() + STARTING;
        while Instant::now() < deadline {
            let answers = timeout(STARTING, self.engine.answers(&self.address)).await;
            // The server may have ended because another process has the port, and answers.
            if program.has_ended() {
                program.kill9();
                return false;
            }
            if answers == Ok(true) {
                return true;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{} does not answer:\n{}", self.engine.name(), program.log())
    }
}

fn clock(folder: &Path) -> PathBuf {
    folder.join("clock")
}

/// Returns the words that start a program with these variables.
fn with<const N: usize>(variables: [(&'static str, PathBuf); N]) -> impl Iterator<Item = OsString> {
    let assigned = variables.map(|(name, value)| {
        let mut assignment = OsString::from(name);
        assignment.push("=");
        assignment.push(value);
        assignment
    });
    [OsString::from("env")].into_iter().chain(assigned)
}
