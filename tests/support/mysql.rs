//! Runs MySQL proper, from the folder that `tests/mysql/download.sh` fills.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use async_trait::async_trait;
use rustix::process::geteuid;
use tokio::sync::OnceCell;

use super::{
    mariadb::Mariadb,
    programs::{copy_folder, initialised, succeed},
    server::{Engine, Server},
};

/// MySQL servers, which speak MariaDB's protocol.
#[derive(Debug)]
pub(crate) struct Mysql;

#[async_trait]
impl Engine for Mysql {
    fn name(&self) -> &'static str {
        "MySQL"
    }

    fn polite(&self) -> &'static str {
        "TERM"
    }

    fn shared(&self) -> (&'static OnceCell<Server>, &'static str) {
        panic!("tests that share a server use MariaDB's variable for MySQL")
    }

    fn fill(&self, folder: &Path) {
        static FRESH: OnceLock<PathBuf> = OnceLock::new();
        let fresh = FRESH.get_or_init(|| initialised(&loader(), "mysql", initialise));
        copy_folder(fresh, &folder.join("data"));
    }

    fn program(&self, folder: &Path, port: u16) -> Vec<OsString> {
        let mut words = mysqld(&folder.join("data"));
        words.push(format!("--port={port}").into());
        // Not in the data folder: another server may get a copy of that.
        words.push(format!("--socket={}", folder.join("server.sock").display()).into());
        words.extend(
            [
                "--pid-file=server.pid",
                "--bind-address=127.0.0.1",
                "--mysqlx=OFF",
                "--skip-name-resolve",
                "--innodb-flush-method=nosync",
                "--innodb-doublewrite=OFF",
                "--innodb-buffer-pool-size=64M",
                "--innodb-fast-shutdown=2",
                "--performance-schema=OFF",
                "--max-connections=500",
            ]
            .map(OsString::from),
        );
        words
    }

    fn address(&self, folder: &Path, port: u16) -> String {
        Mariadb.address(folder, port)
    }

    async fn answers(&self, address: &str) -> bool {
        Mariadb.answers(address).await
    }

    async fn make_database(&self, address: &str, number: u32) -> String {
        Mariadb.make_database(address, number).await
    }

    async fn run(&self, address: &str, sql: &str) {
        Mariadb.run(address, sql).await;
    }

    async fn texts(&self, address: &str, sql: &str) -> Vec<String> {
        Mariadb.texts(address, sql).await
    }

    fn unencrypted(&self) -> &'static str {
        Mariadb.unencrypted()
    }
}

/// Makes a data folder whose administrator may come over TCP.
fn initialise(data: &Path) {
    let folder = data.parent().expect("a folder");
    let users = folder.join("users.sql");
    let sql = "CREATE USER 'root'@'127.0.0.1';\n\
               GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n";
    fs::write(&users, sql).expect("a file");
    let words = mysqld(data);
    succeed(
        Command::new(&words[0])
            .args(&words[1..])
            .args(["--initialize-insecure", "--disable-log-bin"])
            .arg(format!("--init-file={}", users.display())),
    );
    // The file has the server's identity: each copy must have another one.
    fs::remove_file(data.join("auto.cnf")).expect("an identity");
}

/// Returns the server's command with its own C library, as the machine's may be older.
fn mysqld(data: &Path) -> Vec<OsString> {
    let (root, loader) = (root(), loader());
    let of_root = |path: &str| root.join(path).display().to_string();
    let mut words: Vec<OsString> = vec![loader.clone().into(), "--library-path".into()];
    words.push(loader.parent().expect("a folder").into());
    words.push(root.join("usr/sbin/mysqld").into());
    words.push("--no-defaults".into());
    words.push(format!("--basedir={}", of_root("usr")).into());
    words.push(format!("--lc-messages-dir={}", of_root("usr/share/mysql")).into());
    words.push(format!("--plugin-dir={}", of_root("usr/lib/mysql/plugin")).into());
    words.push("--secure-file-priv=NULL".into());
    words.push(format!("--datadir={}", data.display()).into());
    words.push(format!("--tmpdir={}", data.parent().expect("a folder").display()).into());
    words.extend(geteuid().is_root().then(|| OsString::from("--user=root")));
    words
}

fn loader() -> PathBuf {
    let folders = fs::read_dir(root().join("usr/lib")).expect("libraries").flatten();
    let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).flatten().flatten();
    let mut loaders =
        files.filter(|file| file.file_name().to_string_lossy().starts_with("ld-linux-"));
    loaders.next().expect("a loader").path()
}

fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mysql/download.sh");
        let output = Command::new("sh").arg(script).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "MySQL cannot be downloaded:\n{said}");
        PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim_end())
    })
}
