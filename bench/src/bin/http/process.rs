//! Server processes that are pinned to cores, and end with the benchmark.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{time::clock_getcpuclockid, unistd::Pid};
use raindrop_bench::{machine, rounds};
use rustix::thread::{CpuSet, sched_setaffinity};
use tempfile::TempDir;

use super::support::{Result, context, find_or_install, free_address, retry};

/// The two cores: the measured server has one for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    pub(crate) server: usize,
    pub(crate) generator: usize,
}

impl Cores {
    /// Takes two cores, and moves this process, the load generator, to one of them.
    pub(crate) fn take() -> Result<Self> {
        let [server, generator, ..] = rounds::cores()[..] else {
            return Err("the server and the load generator need a core each".into());
        };
        pin(&[generator])?;
        Ok(Self { server, generator })
    }
}

fn pin(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    Ok(sched_setaffinity(None, &set)?)
}

/// A server program, and the folder in which it runs.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    version: String,
    path: PathBuf,
    arguments: Vec<String>,
    folder: TempDir,
    address: SocketAddr,
}

impl Program {
    /// Prepares a program with an empty folder and a free address.
    pub(crate) fn new(name: &'static str, version: String, path: PathBuf) -> Result<Self> {
        let (folder, address) = (tempfile::tempdir()?, free_address()?);
        Ok(Self { name, version, path, arguments: Vec::new(), folder, address })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item: Into<String>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Starts it on the cores `on`, and waits until `is_ready` succeeds.
    pub(crate) fn start(
        self,
        cores: Cores,
        on: &[usize],
        is_ready: impl Fn(SocketAddr) -> Result<()>,
    ) -> Result<Process> {
        let Self { name, version, path, arguments, folder, address } = self;
        let log_path = folder.path().join("log");
        let log = File::create(&log_path)?;
        // The kernel kills it with this process, however this one ends.
        let mut command = Command::new(find_or_install(&["setpriv"], "util-linux")?);
        command
            .args(["--pdeathsig", "KILL"])
            .arg(&path)
            .args(arguments)
            .current_dir(folder.path())
            .env_clear()
            .env("TOKIO_WORKER_THREADS", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        // A child inherits the cores of the thread that starts it.
        pin(on)?;
        let child = command.spawn();
        pin(&[cores.generator])?;
        let child = child.map_err(context(path.display().to_string()))?;
        let mut process = Process { name, version, address, child, _folder: folder };
        let ready = retry(|| match process.child.try_wait()? {
            Some(status) => Ok(Err(format!("it ended: {status}"))),
            None => is_ready(address).map(Ok),
        });
        let error = match ready {
            Ok(Ok(())) => return Ok(process),
            Ok(Err(ended)) => ended,
            Err(error) => error.to_string(),
        };
        let log = fs::read_to_string(log_path).unwrap_or_default();
        Err(format!("{name} did not start: {error}\n{log}").into())
    }
}

/// A running process. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Process {
    /// Returns the CPU time of all its threads so far, user and system.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let clock = clock_getcpuclockid(Pid::from_raw(self.child.id().try_into()?))?;
        Ok(Duration::from(clock.now()?))
    }

    /// Returns its resident memory in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        Ok(machine::resident_memory(&self.child.id().to_string())?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // These fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
