//! A certificate authority of a test's own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::{
    postgres,
    programs::{self, succeed},
};

/// An authority, and a certificate that it issued to `localhost`.
#[derive(Debug)]
pub(crate) struct Authority(TempDir);

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("names"), "subjectAltName = DNS:localhost\n").expect("a file");
        for arguments in [
            "req -x509 -days 2 -subj /CN=test-authority -keyout ca.key -out ca.pem",
            "req -subj /CN=test-server -keyout server.key -out server.csr",
        ] {
            let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
            openssl(folder.path(), &format!("{arguments} {key}"));
        }
        let sign = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                    -extfile names -out server.pem";
        openssl(folder.path(), sign);
        // PostgreSQL refuses a key that others may read.
        postgres::give_away(folder.path());
        Self(folder)
    }

    /// `ca.pem`, `server.pem` or `server.key`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Runs openssl in a folder.
pub(crate) fn openssl(folder: &Path, arguments: &str) {
    let find = || programs::find(&["openssl"], &[]);
    let program = find().expect("these tests need openssl: `make deps` names the package");
    succeed(Command::new(program).args(arguments.split_whitespace()).current_dir(folder));
}
