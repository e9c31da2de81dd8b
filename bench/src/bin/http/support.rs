//! Errors, programs and addresses.

use std::{
    env,
    error::Error,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Errors are for the person who runs the benchmark.
pub(crate) type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// How long a server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

#[expect(clippy::print_stderr, reason = "for the person who runs the benchmark")]
pub(crate) fn warn(text: &str) {
    eprintln!("{text}");
}

/// Finds the first of these programs on the path or in the usual folders.
fn find(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    env::split_paths(&path)
        .chain(usual.map(PathBuf::from))
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|candidate| candidate.is_file())
}

/// Finds a program, or installs its package, which takes root on Debian or Ubuntu.
pub(crate) fn find_or_install(names: &[&str], package: &str) -> Result<PathBuf> {
    if let Some(program) = find(names) {
        return Ok(program);
    }
    warn(&format!("installing {package}"));
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-o", "DPkg::Lock::Timeout=300"]).args(arguments);
        command.env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let install = ["install", "-y", "--no-install-recommends", package];
    let installed = apt_get(&["update"]) && apt_get(&install);
    find(names)
        .filter(|_| installed)
        .ok_or_else(|| format!("{} not found, and {package} not installed", names[0]).into())
}

/// Returns the version that a program prints: the first number with dots.
pub(crate) fn printed_version(program: &Path, argument: &str) -> Result<String> {
    let output = Command::new(program).arg(argument).output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let is_part = |character: char| character.is_ascii_digit() || character == '.';
    let version = text.split(|character| !is_part(character)).find(|word| word.contains('.'));
    Ok(version.unwrap_or("unknown").to_owned())
}

/// Returns a local address on which no process listens.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Retries until it succeeds, or returns the last error after [`START_TIMEOUT`].
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let end = Instant::now() + START_TIMEOUT;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(20)),
            result => return result,
        }
    }
}

/// Prefixes an error with the operation that failed.
pub(crate) fn context<E: Error>(what: impl Into<String>) -> impl FnOnce(E) -> io::Error {
    let what = what.into();
    move |error| io::Error::other(format!("{what}: {error}"))
}
