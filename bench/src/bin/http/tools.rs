//! What every part uses: errors in words, programs, free ports.

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
const STARTING: Duration = Duration::from_secs(60);

#[expect(clippy::print_stderr, reason = "for the person who runs the benchmark")]
pub(crate) fn warn(text: &str) {
    eprintln!("{text}");
}

/// The first of these programs on the path or in the usual folders.
pub(crate) fn find(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    env::split_paths(&path)
        .chain(usual.map(PathBuf::from))
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|candidate| candidate.is_file())
}

/// A program, installed where that is possible: as root, on Debian or Ubuntu.
pub(crate) fn find_or_install(names: &[&str], package: &str) -> Result<PathBuf> {
    if let Some(program) = find(names) {
        return Ok(program);
    }
    warn(&format!("{package} is being installed"));
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-o", "DPkg::Lock::Timeout=300"]).args(arguments);
        command.env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let install = ["install", "-y", "--no-install-recommends", package];
    let installed = apt_get(&["update"]) && apt_get(&install);
    find(names).filter(|_| installed).ok_or_else(|| {
        format!("{} was not found, and {package} could not be installed", names[0]).into()
    })
}

/// What a program tells of its version: the first number with dots.
pub(crate) fn version_told(program: &Path, argument: &str) -> Result<String> {
    let output = Command::new(program).arg(argument).output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let is_part = |character: char| character.is_ascii_digit() || character == '.';
    let version = said.split(|character| !is_part(character)).find(|word| word.contains('.'));
    Ok(version.unwrap_or("unknown").to_owned())
}

/// An address on this machine that nobody listens at.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Tries until it succeeds; the last error when it does not.
pub(crate) fn patiently<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let end = Instant::now() + STARTING;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(20)),
            result => return result,
        }
    }
}

/// Says what failed.
pub(crate) fn context<E: Error>(what: impl Into<String>) -> impl FnOnce(E) -> io::Error {
    let what = what.into();
    move |error| io::Error::other(format!("{what}: {error}"))
}
