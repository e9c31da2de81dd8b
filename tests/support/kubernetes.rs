//! Runs Kubernetes' API server and its etcd; `tests/kubernetes/build.sh` builds both.
//!
//! A database is a namespace, and its address names a kubeconfig and the namespace.
//! `RAINDROP_TEST_KUBERNETES_URL` (`kubernetes:?kubeconfig=/path`) names another shared cluster.

use std::{
    ffi::OsString,
    fs,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    api::{ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{net::TcpStream, sync::OnceCell};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};

use super::{
    server::{Engine, Server},
    tls::openssl,
};

const PATIENCE: Duration = Duration::from_secs(300);
/// The administrator's token for the API server.
const ADMIN: &str = "planted-admin-token";

/// Servers of etcd.
#[derive(Debug)]
pub(crate) struct Etcd;

/// API servers of Kubernetes, each with a separate etcd.
#[derive(Debug)]
pub(crate) struct Kubernetes;

/// Returns the program of this name, and builds it if need be.
fn built(name: &str) -> OsString {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes/build.sh");
        let output = Command::new("sh").arg(script).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "Kubernetes cannot be built:\n{said}");
        PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim_end())
    });
    folder.join(name).into()
}

#[async_trait]
impl Engine for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn polite(&self) -> &'static str {
        "TERM"
    }

    fn shared(&self) -> (&'static OnceCell<Server>, &'static str) {
        panic!("an etcd belongs to one API server")
    }

    fn program(&self, folder: &Path, port: u16) -> Vec<OsString> {
        let url = format!("http://127.0.0.1:{port}");
        // No other member ever connects to it.
        let peers = folder.join("peers").display().to_string();
        let mut words = vec![built("etcd")];
        words.extend(
            [
                format!("--data-dir={}", folder.join("data").display()),
                format!("--listen-client-urls={url}"),
                format!("--advertise-client-urls={url}"),
                format!("--listen-peer-urls=unix://{peers}"),
                "--log-level=warn".to_owned(),
            ]
            .map(OsString::from),
        );
        words
    }

    fn address(&self, _folder: &Path, port: u16) -> String {
        format!("http://127.0.0.1:{port}")
    }

    async fn answers(&self, address: &str) -> bool {
        let answer = reqwest::get(format!("{address}/health")).await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    async fn make_database(&self, _address: &str, _number: u32) -> String {
        panic!("nodes do not talk to etcd")
    }
}

#[async_trait]
impl Engine for Kubernetes {
    fn name(&self) -> &'static str {
        "Kubernetes"
    }

    fn polite(&self) -> &'static str {
        "TERM"
    }

    fn shared(&self) -> (&'static OnceCell<Server>, &'static str) {
        static SHARED: OnceCell<Server> = OnceCell::const_new();
        (&SHARED, "RAINDROP_TEST_KUBERNETES_URL")
    }

    async fn backing(&self) -> Option<Server> {
        Some(Server::start(&Etcd).await)
    }

    fn fill(&self, folder: &Path) {
        openssl(folder, "genrsa -out accounts.key 2048");
        let tokens = format!("{ADMIN},admin,admin,system:masters\n");
        fs::write(folder.join("tokens.csv"), tokens).expect("a file");
    }

    fn program(&self, folder: &Path, port: u16) -> Vec<OsString> {
        write_kubeconfig(folder, "kubeconfig", port, &format!("token: {ADMIN}"));
        let key = folder.join("accounts.key").display().to_string();
        let mut words = vec![built("kube-apiserver")];
        words.extend(
            [
                "--bind-address=127.0.0.1".to_owned(),
                "--advertise-address=127.0.0.1".to_owned(),
                format!("--secure-port={port}"),
                format!("--cert-dir={}", folder.display()),
                "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-account-key-file={key}"),
                format!("--service-account-signing-key-file={key}"),
                format!("--token-auth-file={}", folder.join("tokens.csv").display()),
                "--authorization-mode=RBAC".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
                // The server ends in order while clients keep their connections.
                "--shutdown-delay-duration=0s".to_owned(),
            ]
            .map(OsString::from),
        );
        words
    }

    fn backed_by(&self, address: &str) -> OsString {
        format!("--etcd-servers={address}").into()
    }

    fn address(&self, folder: &Path, _port: u16) -> String {
        format!("kubernetes:?kubeconfig={}", folder.join("kubeconfig").display())
    }

    async fn answers(&self, address: &str) -> bool {
        let Some(client) = try_client(address).await else { return false };
        // The namespace exists once the server has started.
        Api::<Namespace>::all(client).get("default").await.is_ok()
    }

    async fn make_database(&self, address: &str, number: u32) -> String {
        let name = format!("test-{number}");
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespaces: Api<Namespace> = Api::all(client(address).await);
        namespaces.create(&PostParams::default(), &namespace).await.expect("a new namespace");
        format!("{address}&namespace={name}")
    }

    fn through(&self, url: &str, port: u16) -> String {
        let kubeconfig = parameter(url, "kubeconfig").expect("a kubeconfig");
        let folder = Path::new(&kubeconfig).parent().expect("a folder");
        let through = folder.join(format!("kubeconfig-{port}"));
        let direct = fs::read_to_string(&kubeconfig).expect("a kubeconfig");
        // The proxy speaks TLS with the server, so that it can read the requests and answers.
        let (before, rest) = direct.split_once("https://127.0.0.1:").expect("a server");
        let (_, after) = rest.split_once('"').expect("a port");
        let changed = format!("{before}http://127.0.0.1:{port}\"{after}");
        fs::write(&through, changed).expect("a file");
        url.replace(&kubeconfig, &through.display().to_string())
    }
}

/// Writes a kubeconfig for an API server or a proxy on this port. `user` is the content of the
/// user's entry.
pub(crate) fn write_kubeconfig(folder: &Path, name: &str, port: u16, user: &str) -> PathBuf {
    let authority = folder.join("apiserver.crt").display().to_string();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters: [{{name: test, cluster: {{server: \"https://127.0.0.1:{port}\", \
         certificate-authority: {authority}}}}}]\n\
         users: [{{name: user, user: {{{user}}}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: user}}}}]\n"
    );
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    path
}

/// Opens a connection to the API server of a cluster of the tests.
pub(crate) async fn connect(url: &str) -> Option<TlsStream<TcpStream>> {
    let kubeconfig = PathBuf::from(parameter(url, "kubeconfig")?);
    let mut authorities = RootCertStore::empty();
    let authority = kubeconfig.with_file_name("apiserver.crt");
    let certificates = CertificateDer::pem_file_iter(authority).ok()?;
    authorities.add_parsable_certificates(certificates.filter_map(Result::ok));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.ok()?.with_root_certificates(authorities).with_no_client_auth();
    let text = fs::read_to_string(kubeconfig).ok()?;
    let (_, server) = text.split_once("https://")?;
    let (server, _) = server.split_once('"')?;
    let stream = TcpStream::connect(server).await.ok()?;
    let _ = stream.set_nodelay(true);
    let name = ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST));
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()
}

/// Returns a client of the administrator.
pub(crate) async fn client(url: &str) -> Client {
    try_client(url).await.expect("a kubeconfig")
}

async fn try_client(url: &str) -> Option<Client> {
    let kubeconfig = Kubeconfig::read_from(parameter(url, "kubeconfig")?).ok()?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.ok()?;
    config.read_timeout = Some(PATIENCE);
    Client::try_from(config).ok()
}

/// Returns a parameter of a store's address.
pub(crate) fn parameter(url: &str, name: &str) -> Option<String> {
    let (_, query) = url.split_once('?')?;
    let value = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    value.map(str::to_owned)
}
