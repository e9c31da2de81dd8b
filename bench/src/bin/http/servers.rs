//! The servers that are measured.

use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use raindrop_bench::machine::version_of;

use super::{
    client::Client,
    process::{Cores, Process, Program},
    tools::{Result, find_or_install, free_address, version_told, warn},
};

/// The batch sizes of `/ids` that are measured.
pub(crate) const BATCHES: [usize; 5] = [1, 10, 100, 1000, 10_000];

/// The path at which a bare server answers as many bytes as `/id`.
pub(crate) const CONSTANT_ID: &str = "/id";

/// The path at which a bare server answers as many bytes as `/ids` with this `n`.
pub(crate) fn constant_ids(n: usize) -> String {
    format!("/ids/{n}")
}

/// Raindrop with its default settings, SQLite in its folder included, but for these.
pub(crate) fn raindrop(
    binary: &Path,
    settings: &[(&str, &str)],
    cores: Cores,
    on: &[usize],
) -> Result<Process> {
    let address = free_address()?;
    let arguments = vec!["--listen".to_owned(), address.to_string()];
    let path = fs::canonicalize(binary)?;
    let folder = tempfile::tempdir()?;
    let lines = settings.iter().map(|(key, value)| format!("RAINDROP__{key}={value}\n"));
    fs::write(folder.path().join(".env"), lines.collect::<String>())?;
    let version = version_told(&path, "--version")?;
    let program = Program { name: "Raindrop", version, path, arguments, folder, address };
    Process::start(program, cores, on, |address| Client::connect(address)?.get("/readyz").map(drop))
}

/// How long the answers of Raindrop are, for the constants of the others.
#[derive(Clone, Debug)]
pub(crate) struct Lengths {
    id: usize,
    batches: Vec<(usize, usize)>,
}

impl Lengths {
    /// Asks, and checks that the answers are what they should be.
    pub(crate) fn of(raindrop: &Process) -> Result<Self> {
        let mut client = Client::connect(raindrop.address)?;
        let body = client.get("/id/lengths")?;
        let one: serde_json::Value = serde_json::from_slice(body)?;
        one["id"].as_str().ok_or("/id answers no ID")?.parse::<u64>()?;
        let id = body.len();
        let mut batches = Vec::new();
        for n in BATCHES {
            let body = client.get(&format!("/ids/lengths?n={n}"))?;
            let many: serde_json::Value = serde_json::from_slice(body)?;
            let ids = many["ids"].as_array().ok_or("/ids answers no IDs")?;
            let numbers = ids.iter().map(|id| id.as_str().and_then(|id| id.parse::<u64>().ok()));
            let numbers: Option<Vec<_>> = numbers.collect();
            if !numbers.is_some_and(|ids| ids.len() == n && ids.is_sorted_by(|a, b| a < b)) {
                return Err(format!("/ids does not answer {n} ascending IDs").into());
            }
            batches.push((n, body.len()));
        }
        Ok(Self { id, batches })
    }
}

/// A server of ours that answers constants; `program` is built beside this one.
pub(crate) fn bare(
    name: &'static str,
    program: &str,
    lengths: &Lengths,
    cores: Cores,
) -> Result<Process> {
    let path = env::current_exe()?.with_file_name(program);
    if !path.is_file() {
        return Err(format!("{} is not built", path.display()).into());
    }
    let address = free_address()?;
    let mut arguments = vec![address.to_string(), format!("{CONSTANT_ID}={}", lengths.id)];
    let batches = lengths.batches.iter();
    arguments.extend(batches.map(|(n, length)| format!("{}={length}", constant_ids(*n))));
    let folder = tempfile::tempdir()?;
    let version = version_of(name).to_owned();
    let program = Program { name, version, path, arguments, folder, address };
    Process::start(program, cores, &[cores.server], answers_constants)
}

fn answers_constants(address: SocketAddr) -> Result<()> {
    Client::connect(address)?.get(CONSTANT_ID).map(drop)
}

/// nginx, one process, which returns constants; `None` where it cannot be had.
pub(crate) fn nginx(lengths: &Lengths, cores: Cores) -> Result<Option<Process>> {
    let Some(path) = or_left_out(find_or_install(&["nginx"], "nginx-light")) else {
        return Ok(None);
    };
    let (address, folder) = (free_address()?, tempfile::tempdir()?);
    // Longer constants than of ten IDs do not fit into its configuration.
    let mut constants = vec![(CONSTANT_ID.to_owned(), lengths.id)];
    let small = lengths.batches.iter().filter(|(n, _)| *n == 10);
    constants.extend(small.map(|(n, length)| (constant_ids(*n), *length)));
    let locations: String = constants
        .iter()
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
         server {{ listen {address}; add_header Cache-Control no-store;\n{locations}}} }}\n"
    );
    fs::write(folder.path().join("nginx.conf"), configuration)?;
    let prefix = folder.path().display().to_string();
    let arguments = ["-p", &prefix, "-c", "nginx.conf"].map(str::to_owned).to_vec();
    let version = version_told(&path, "-v")?;
    let program = Program { name: "nginx", version, path, arguments, folder, address };
    Process::start(program, cores, &[cores.server], answers_constants).map(Some)
}

/// Redis without persistence; `None` where it cannot be had.
pub(crate) fn redis(cores: Cores) -> Result<Option<Process>> {
    let Some(path) = or_left_out(find_or_install(&["redis-server"], "redis-server")) else {
        return Ok(None);
    };
    let (address, folder) = (free_address()?, tempfile::tempdir()?);
    let port = address.port().to_string();
    let arguments = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let arguments = arguments.map(str::to_owned).to_vec();
    let version = version_told(&path, "--version")?;
    let program = Program { name: "Redis", version, path, arguments, folder, address };
    Process::start(program, cores, &[cores.server], |address| {
        Ok(std::net::TcpStream::connect(address).map(drop)?)
    })
    .map(Some)
}

fn or_left_out(program: Result<PathBuf>) -> Option<PathBuf> {
    program.inspect_err(|error| warn(&format!("left out: {error}"))).ok()
}
