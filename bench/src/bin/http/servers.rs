//! The measured servers.

use std::{env, fs, net::SocketAddr, path::Path};

use raindrop_bench::machine::version_of;

use super::{
    client::Client,
    process::{Cores, Process, Program},
    support::{Result, find_or_install, printed_version, warn},
};

/// The measured batch sizes of `/ids`.
pub(crate) const BATCHES: [usize; 5] = [1, 10, 100, 1000, 10_000];

/// The path at which a bare server responds with as many bytes as `/id`.
pub(crate) const CONSTANT_ID: &str = "/id";

/// Returns the path at which a bare server responds with as many bytes as `/ids` with this `n`.
pub(crate) fn constant_ids(n: usize) -> String {
    format!("/ids/{n}")
}

/// Starts Raindrop with SQLite in its folder and its default settings except for `settings`.
pub(crate) fn raindrop(
    binary: &Path,
    settings: &[(&str, &str)],
    cores: Cores,
    on: &[usize],
) -> Result<Process> {
    let is_ready = |address| Client::new(address).get("/readyz").map(drop);
    raindrop_program(binary, settings)?.start(cores, on, is_ready)
}

/// Prepares Raindrop in the same way, without starting it.
pub(crate) fn raindrop_program(binary: &Path, settings: &[(&str, &str)]) -> Result<Program> {
    let path = fs::canonicalize(binary)?;
    let program = Program::new("Raindrop", printed_version(&path, "--version")?, path)?;
    // One sequence for all codes has fewer IDs in a millisecond than the server can hand out.
    let settings = [&[("CODES__SHARED", "false")], settings].concat();
    let lines = settings.iter().map(|(key, value)| format!("RAINDROP__{key}={value}\n"));
    fs::write(program.folder().join(".env"), lines.collect::<String>())?;
    let address = program.address().to_string();
    Ok(program.args(["--listen", &address]))
}

/// The paths of the bare servers, and the lengths of Raindrop's bodies for them.
pub(crate) type Constants = Vec<(String, usize)>;

/// Measures Raindrop's bodies, and checks them.
pub(crate) fn constants(raindrop: &Process) -> Result<Constants> {
    let client = Client::new(raindrop.address);
    let number = |id: &serde_json::Value| id.as_str().and_then(|id| id.parse::<u64>().ok());
    let body = client.get("/id/lengths")?;
    number(&serde_json::from_str::<serde_json::Value>(&body)?["id"]).ok_or("/id has no ID")?;
    let mut constants = vec![(CONSTANT_ID.to_owned(), body.len())];
    for n in BATCHES {
        let body = client.get(&format!("/ids/lengths?n={n}"))?;
        let ids = serde_json::from_str::<serde_json::Value>(&body)?;
        let ids = ids["ids"].as_array().and_then(|ids| ids.iter().map(number).collect());
        if !ids.is_some_and(|ids: Vec<_>| ids.len() == n && ids.is_sorted_by(|a, b| a < b)) {
            return Err(format!("/ids has not {n} ascending IDs").into());
        }
        constants.push((constant_ids(n), body.len()));
    }
    Ok(constants)
}

/// Starts a bare server that responds with constants; `binary` is built beside this one.
pub(crate) fn bare(
    name: &'static str,
    binary: &str,
    constants: &Constants,
    cores: Cores,
) -> Result<Process> {
    let path = env::current_exe()?.with_file_name(binary);
    if !path.is_file() {
        return Err(format!("{} is not built", path.display()).into());
    }
    let program = Program::new(name, version_of(name).to_owned(), path)?;
    let address = program.address().to_string();
    let constants = constants.iter().map(|(path, length)| format!("{path}={length}"));
    program.args([address]).args(constants).start(cores, &[cores.server], has_constants)
}

fn has_constants(address: SocketAddr) -> Result<()> {
    Client::new(address).get(CONSTANT_ID).map(drop)
}

/// Starts nginx, one process, which returns constants; `None` if it cannot be installed.
pub(crate) fn nginx(constants: &Constants, cores: Cores) -> Result<Option<Process>> {
    let Some(program) = installed("nginx", "nginx", "nginx-light", "-v")? else {
        return Ok(None);
    };
    // Its configuration takes no longer constants.
    let constants = constants.iter().filter(|(_, length)| *length < 1000);
    let locations: String = constants
        .map(|(path, length)| {
            format!("location = {path} {{ return 200 '{}'; }}\n", "0".repeat(*length))
        })
        .collect();
    let configuration = format!(
        "daemon off; master_process off; worker_processes 1; pid nginx.pid; error_log stderr;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; default_type application/json;\n\
         client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
         uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         server {{ listen {}; add_header Cache-Control no-store;\n{locations}}} }}\n",
        program.address()
    );
    fs::write(program.folder().join("nginx.conf"), configuration)?;
    let prefix = program.folder().display().to_string();
    let program = program.args(["-p", &prefix, "-c", "nginx.conf"]);
    program.start(cores, &[cores.server], has_constants).map(Some)
}

/// Starts Redis without persistence; `None` if it cannot be installed.
pub(crate) fn redis(cores: Cores) -> Result<Option<Process>> {
    let Some(program) = installed("Redis", "redis-server", "redis-server", "--version")? else {
        return Ok(None);
    };
    let port = program.address().port().to_string();
    let arguments = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let is_ready = |address| Ok(std::net::TcpStream::connect(address).map(drop)?);
    program.args(arguments).start(cores, &[cores.server], is_ready).map(Some)
}

/// Finds or installs a server; `None`, with a warning, if that is impossible.
fn installed(
    name: &'static str,
    program: &str,
    package: &str,
    version: &str,
) -> Result<Option<Program>> {
    match find_or_install(&[program], package) {
        Ok(path) => Program::new(name, printed_version(&path, version)?, path).map(Some),
        Err(error) => {
            warn(&format!("left out: {error}"));
            Ok(None)
        }
    }
}
