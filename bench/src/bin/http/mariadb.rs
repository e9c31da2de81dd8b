//! Private MariaDB servers.

use std::{fs, net::SocketAddr, path::PathBuf, process::Command};

use nix::unistd::geteuid;
use tempfile::TempDir;

use super::{
    process::{Cores, Process, Program},
    tools::{Result, find_or_install, free_address, version_told},
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
        let (address, folder) = (free_address()?, tempfile::tempdir()?);
        run(Command::new("cp")
            .arg("-R")
            .arg(self.template.path().join("data"))
            .arg(folder.path()))?;
        fs::create_dir(folder.path().join("data/raindrop"))?;
        let mut arguments: Vec<String> = vec!["--no-defaults".to_owned()];
        arguments.extend(as_root().map(str::to_owned));
        arguments.push(format!("--datadir={}", folder.path().join("data").display()));
        arguments.push(format!("--port={}", address.port()));
        arguments.extend(
            [
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
                "--character-set-server=utf8mb4",
            ]
            .map(str::to_owned),
        );
        let program = Program {
            name: "MariaDB",
            version: version_told(&self.server, "--version")?,
            path: self.server.clone(),
            arguments,
            folder,
            address,
        };
        Process::start(program, cores, &[cores.server, cores.generator], |address| {
            self.query(address, "SELECT 1").map(drop)
        })
    }

    /// The first row's last column of a statement's answer.
    fn query(&self, address: SocketAddr, statement: &str) -> Result<String> {
        let mut command = Command::new(&self.client);
        command.args(["--no-defaults", "--host=127.0.0.1", "--user=root", "--batch"]);
        command.arg("--skip-column-names").arg(format!("--port={}", address.port()));
        let answer = run(command.args(["--execute", statement]))?;
        let line = answer.lines().next().unwrap_or_default();
        Ok(line.rsplit('\t').next().unwrap_or_default().to_owned())
    }

    /// How many statements a server got from its clients.
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
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}\n{said}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
