//! Private MariaDB servers.

use std::{fs, net::SocketAddr, path::PathBuf, process::Command};

use rustix::process::geteuid;
use tempfile::TempDir;

use super::{
    process::{Cores, Process, Program},
    support::{Result, find_or_install, printed_version},
};

/// The programs, and a data folder to copy.
#[derive(Debug)]
pub(crate) struct Mariadb {
    server: PathBuf,
    client: PathBuf,
    template: TempDir,
}

impl Mariadb {
    /// Finds or installs it, and makes a data folder.
    pub(crate) fn prepare() -> Result<Self> {
        let server = find_or_install(&["mariadbd", "mysqld"], "mariadb-server")?;
        let client = find_or_install(&["mariadb", "mysql"], "mariadb-client")?;
        let install =
            find_or_install(&["mariadb-install-db", "mysql_install_db"], "mariadb-server")?;
        let template = tempfile::tempdir()?;
        let mut command = Command::new(install);
        command.arg("--no-defaults").args(as_root());
        command.arg(format!("--datadir={}", template.path().join("data").display()));
        run(command.args([
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
            "--innodb-log-file-size=16M",
            "--innodb-flush-method=nosync",
        ]))?;
        Ok(Self { server, client, template })
    }

    /// Starts a server with an empty database, `raindrop`, on both cores.
    pub(crate) fn start(&self, cores: Cores) -> Result<Process> {
        let version = printed_version(&self.server, "--version")?;
        let program = Program::new("MariaDB", version, self.server.clone())?;
        let (template, folder) = (self.template.path().join("data"), program.folder());
        run(Command::new("cp").arg("-R").arg(template).arg(folder))?;
        let data = folder.join("data");
        fs::create_dir(data.join("raindrop"))?;
        let own = [
            format!("--datadir={}", data.display()),
            format!("--port={}", program.address().port()),
        ];
        let program = program.args(["--no-defaults"]).args(as_root()).args(own).args([
            "--socket=server.sock",
            "--pid-file=server.pid",
            "--bind-address=127.0.0.1",
            "--skip-networking=0",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-flush-method=nosync",
            "--skip-log-bin",
            "--innodb-buffer-pool-size=32M",
            "--performance-schema=0",
            "--max-connections=2000",
            "--character-set-server=utf8mb4",
        ]);
        program.start(cores, &[cores.server, cores.generator], |address| {
            self.query(address, "SELECT 1").map(drop)
        })
    }

    /// Returns the last column of a statement's first row.
    fn query(&self, address: SocketAddr, statement: &str) -> Result<String> {
        let mut command = Command::new(&self.client);
        command.args(["--no-defaults", "--host=127.0.0.1", "--user=root", "--batch"]);
        command.arg("--skip-column-names").arg(format!("--port={}", address.port()));
        let output = run(command.args(["--execute", statement]))?;
        let line = output.lines().next().unwrap_or_default();
        Ok(line.rsplit('\t').next().unwrap_or_default().to_owned())
    }

    /// Returns how many statements it takes to read their number.
    pub(crate) fn statements_of_reading(&self, server: &Process) -> Result<u64> {
        let first = self.statements(server)?;
        Ok(self.statements(server)? - first)
    }

    /// Returns how many statements a server has received from its clients.
    pub(crate) fn statements(&self, server: &Process) -> Result<u64> {
        Ok(self.query(server.address, "SHOW GLOBAL STATUS LIKE 'Questions'")?.parse()?)
    }
}

fn as_root() -> Option<&'static str> {
    geteuid().is_root().then_some("--user=root")
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}\n{errors}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
