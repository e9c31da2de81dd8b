//! Makes a certificate authority for a test.

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

/// The configuration that `openssl ca` needs.
const CONFIGURATION: &str = "\
[ca]
default_ca = test
[test]
database = index.txt
serial = serial
new_certs_dir = .
unique_subject = no
default_md = sha256
default_crl_days = 1
crl_extensions = list
policy = any
[list]
authorityKeyIdentifier = keyid
[any]
commonName = supplied
";

/// An authority, and a certificate that it issued to `localhost`.
#[derive(Debug)]
pub(crate) struct Authority(TempDir);

/// The usual keys.
const P256: &str = "ec -pkeyopt ec_paramgen_curve:P-256";

impl Authority {
    pub(crate) fn new() -> Self {
        Self::with_server(P256, "-extfile names")
    }

    /// Makes an authority and a certificate without extensions, as `openssl x509 -req` makes them
    /// by default.
    pub(crate) fn with_version_1() -> Self {
        Self::with_server(P256, "")
    }

    /// Makes an authority and a server's key of this kind.
    pub(crate) fn with_key(key: &str) -> Self {
        Self::with_server(key, "-extfile names")
    }

    fn with_server(key: &str, extensions: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("names"), "subjectAltName = DNS:localhost\n").expect("a file");
        for (arguments, key) in [
            ("req -x509 -days 2 -subj /CN=test-authority -keyout ca.key -out ca.pem", P256),
            ("req -subj /CN=test-server -keyout server.key -out server.csr", key),
        ] {
            openssl(folder.path(), &format!("{arguments} -newkey {key} -nodes"));
        }
        let sign = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2";
        openssl(folder.path(), &format!("{sign} {extensions} -out server.pem"));
        fs::write(folder.path().join("ca.cnf"), CONFIGURATION).expect("a file");
        fs::write(folder.path().join("index.txt"), "").expect("a file");
        fs::write(folder.path().join("serial"), "1000").expect("a file");
        // PostgreSQL refuses a key that other users may read.
        postgres::give_away(folder.path());
        Self(folder)
    }

    /// Issues another certificate, with these extensions, for this time.
    pub(crate) fn issue(&self, extensions: &str, [from, until]: [&str; 2]) {
        fs::write(self.file("extensions"), extensions).expect("a file");
        self.sign(&format!(
            "-in server.csr -extfile extensions -notext -out server.pem -startdate {from} -enddate {until}"
        ));
    }

    /// Revokes the certificate; the next `crl.pem` lists it.
    pub(crate) fn revoke(&self) {
        self.sign("-revoke server.pem");
    }

    /// Writes `crl.pem`, a list of the revoked certificates that is valid for this many days.
    pub(crate) fn list_revoked(&self, days: u32) {
        self.sign(&format!("-gencrl -crldays {days} -out crl.pem"));
    }

    fn sign(&self, arguments: &str) {
        let authority = "ca -batch -config ca.cnf -cert ca.pem -keyfile ca.key";
        openssl(self.0.path(), &format!("{authority} {arguments}"));
    }

    /// Returns the path of `ca.pem`, `server.pem` or `server.key`.
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
