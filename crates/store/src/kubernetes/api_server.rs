//! Finds the API server: that of the pod's own cluster, or the one in a kubeconfig.
//!
//! [`Address::connect`] reads the files of the service account or the kubeconfig again for each
//! client, because tokens and certificates are rotated. It refuses a server whose certificate it
//! cannot verify, unless the server is on this machine: an attacker in between could answer that a
//! write took place.
//!
//! The client that it makes neither retries nor has time-outs. The server could refuse a retry
//! because the first attempt took place; `api.rs` bounds each request as a whole. Tests:
//! tests/store/kubernetes.rs, against real servers.

use std::collections::HashMap;

use http::{HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{
    Result, StoreError, StoreSettings, TlsMode,
    parameters::{Parameters, read},
    tls::{choose_cryptography, is_local},
};

const PASSED: [&str; 3] = ["context", "kubeconfig", "namespace"];
const PARAMETERS: Parameters = Parameters::without_tls(&PASSED);

/// Where the API server is.
#[derive(Clone, Debug)]
pub(super) enum ApiServer {
    /// By the store's address.
    Addressed(Address),
    #[cfg(test)]
    Simulated(std::sync::Arc<super::tests::Server>),
}

/// The parameters of the store's address.
#[derive(Clone, Debug)]
pub(super) struct Address {
    context: Option<String>,
    kubeconfig: Option<String>,
    namespace: Option<String>,
}

impl ApiServer {
    /// Creates a client, and returns it with the server's address and the namespace of the Leases.
    pub(super) async fn connect(&self) -> Result<(Client, String, String)> {
        match self {
            Self::Addressed(address) => address.connect().await,
            #[cfg(test)]
            Self::Simulated(server) => {
                Ok((server.client(), "simulated".to_owned(), "default".to_owned()))
            }
        }
    }
}

impl Address {
    /// Parses the store's address: `kubernetes:`, perhaps with parameters.
    pub(super) fn new(settings: &StoreSettings) -> Result<Self> {
        if settings.tls.is_some_and(|mode| mode != TlsMode::Verify) {
            return Err(settings.unusable(
                "store.tls can only be verify: the service account or the kubeconfig brings the \
                 authority of the API server's certificate",
            ));
        }
        if settings.tls_ca_file.is_some() {
            return Err(settings.unusable(
                "store.tls_ca_file is not read: the service account or the kubeconfig names the \
                 authority of the API server's certificate",
            ));
        }
        let target = read(settings, &PARAMETERS)?;
        let (address, query) = target.url.split_once('?').unwrap_or((&target.url, ""));
        if address != "kubernetes:" {
            return Err(settings.unusable(
                "it must be kubernetes: alone, or with parameters such as \
                 kubernetes:?namespace=ids&context=prod",
            ));
        }
        let mut given: HashMap<_, _> =
            form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        if let Some((name, _)) = given.iter().find(|(_, value)| value.is_empty()) {
            return Err(settings.unusable(format!("its parameter {name} is empty")));
        }
        let [context, kubeconfig, namespace] = PASSED.map(|name| given.remove(name));
        Ok(Self { context, kubeconfig, namespace })
    }

    /// Reads the files of the service account or kubeconfig. The client connects with its first
    /// request.
    async fn connect(&self) -> Result<(Client, String, String)> {
        let mut config = self.config().await?;
        if config.accept_invalid_certs {
            return Err(unusable(
                "its certificate must be verified, and insecure-skip-tls-verify \
                says that it is not",
            ));
        }
        let is_encrypted = config.cluster_url.scheme_str() == Some("https");
        if !is_encrypted && !config.cluster_url.host().is_some_and(is_local) {
            return Err(unusable(format!("{} is without TLS", config.cluster_url)));
        }
        // A retry inside the client could be refused although its first attempt took place.
        config.default_retry = false;
        // The caller bounds each request as a whole.
        config.connect_timeout = None;
        config.read_timeout = None;
        config.write_timeout = None;
        let agent = concat!("raindrop/", env!("CARGO_PKG_VERSION"));
        config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        choose_cryptography();
        Ok((Client::try_from(config).map_err(unusable)?, server, namespace))
    }

    async fn config(&self) -> Result<Config> {
        if self.context.is_none() && self.kubeconfig.is_none() {
            return Config::infer().await.map_err(unusable);
        }
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let context = self.context.clone();
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        let kubeconfig = kubeconfig.map_err(unusable)?;
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unusable)
    }
}

fn unusable(reason: impl ToString) -> StoreError {
    StoreError::Unusable(format!("the Kubernetes API cannot be used: {}", reason.to_string()))
}
