//! Processes of the benchmark's own, on a core of their own, gone with it.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{time::clock_getcpuclockid, unistd::Pid};
use raindrop_bench::rounds;
use rustix::thread::{CpuSet, sched_setaffinity};
use tempfile::TempDir;

use super::tools::{Result, context, find_or_install, patiently};

/// The two cores: what is measured has one for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    pub(crate) server: usize,
    pub(crate) generator: usize,
}

impl Cores {
    /// Takes two cores, and moves this process, the load generator, to one of them.
    pub(crate) fn take() -> Result<Self> {
        let [server, generator, ..] = rounds::cores()[..] else {
            return Err("a server and the load generator need a core each".into());
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

/// A program to be started in a folder of its own.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) folder: TempDir,
    pub(crate) address: SocketAddr,
}

/// A running process; it and its folder go when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) address: SocketAddr,
    child: Child,
    folder: TempDir,
}

impl Process {
    /// Starts a program on the cores `on`, and waits until `is_ready`.
    pub(crate) fn start(
        program: Program,
        cores: Cores,
        on: &[usize],
        is_ready: impl Fn(SocketAddr) -> Result<()>,
    ) -> Result<Self> {
        let Program { name, version, path, arguments, folder, address } = program;
        let log = File::create(folder.path().join("log"))?;
        // The kernel ends it with this process, however this one ends.
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
        // A child begins on the cores of the thread that starts it.
        pin(on)?;
        let child = command.spawn();
        pin(&[cores.generator])?;
        let child = child.map_err(context(path.display().to_string()))?;
        let mut process = Self { name, version, address, child, folder };
        let ready = patiently(|| match process.child.try_wait()? {
            Some(status) => Ok(Err(format!("it ended: {status}"))),
            None => is_ready(address).map(Ok),
        });
        match ready {
            Ok(Ok(())) => Ok(process),
            Ok(Err(error)) => Err(process.failed(&error)),
            Err(error) => Err(process.failed(&error.to_string())),
        }
    }

    fn failed(&self, error: &str) -> Box<dyn std::error::Error> {
        let log = fs::read_to_string(self.folder().join("log")).unwrap_or_default();
        format!("{} did not start: {error}\n{log}", self.name).into()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The processor time of all its threads so far, user and system.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let clock = clock_getcpuclockid(Pid::from_raw(self.child.id().try_into()?))?;
        Ok(Duration::from(clock.now()?))
    }

    /// Its resident memory in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| "/proc tells no VmRSS".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already if this fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
