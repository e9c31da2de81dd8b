//! The HTTP client of the commands that ask a running service.

mod tls;

use std::{
    error::Error,
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use self::tls::Trust;
use super::{failure::Failure, serve::is_without_ipv6};
use crate::{config::small_file, core::visible::visible, store::with_sources};

/// How long an answer may take: longer than a service waits for its store by default.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes of an answer: more than any list of worker ids or page of codes has.
const LARGEST_ANSWER: usize = 64 << 20;

/// The address of a service.
#[derive(Clone, Debug)]
pub(super) struct Address {
    is_tls: bool,
    host: String,
    port: u16,
}

impl Address {
    /// Reads the URL that a flag has.
    pub(super) fn of(flag: &str, url: &Uri) -> Result<Self, Failure> {
        let wrong = || {
            // A password before the @ is not shown.
            let url = url.to_string();
            let shown = url.rsplit_once('@').map_or(&*url, |(_, rest)| rest);
            Failure::Usage(format!("{flag} {shown}: must be http(s)://host:port"))
        };
        let (is_tls, port) = match url.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(wrong()),
        };
        let authority = url.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or_else(wrong)?;
        if url.path().len() > 1 || url.query().is_some() {
            return Err(wrong());
        }
        let host = authority.host();
        let port = match authority.as_str().strip_prefix(host) {
            Some("") => port,
            // A number that is no port would otherwise lead to another service.
            _ => authority.port_u16().ok_or_else(wrong)?,
        };
        Ok(Self { is_tls, host: host.to_owned(), port })
    }

    pub(super) fn new(is_tls: bool, address: SocketAddr) -> Self {
        let host = match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        Self { is_tls, host, port: address.port() }
    }

    /// Returns whether only this machine and the server can read a request.
    fn is_private(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        let is_loopback = |address: IpAddr| address.is_loopback();
        self.is_tls || host == "localhost" || host.parse().is_ok_and(is_loopback)
    }

    /// Sends a request without a secret, and reads the answer. Certificates are not verified.
    pub(super) async fn probe(&self, path: &str) -> Result<Answer, Box<dyn Error>> {
        let request = Request::get(path).body(Full::default())?;
        self.send(request, &Trust::Anybody).await
    }

    async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        trust: &Trust,
    ) -> Result<Answer, Box<dyn Error>> {
        let host = HeaderValue::try_from(format!("{}:{}", self.host, self.port))?;
        request.headers_mut().insert(header::HOST, host);
        let connect = async |host: &str| TcpStream::connect(format!("{host}:{}", self.port)).await;
        let stream = match connect(&self.host).await {
            // Fall back to IPv4, as the service does.
            Err(error) if is_without_ipv6(&error) && self.host == "[::1]" => {
                connect("127.0.0.1").await?
            }
            stream => stream?,
        };
        if self.is_tls {
            return exchange(tls::connect(stream, &self.host, trust).await?, request).await;
        }
        exchange(stream, request).await
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// An answer that was read whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: String,
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Box<dyn Error>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
    let body = body.map_err(|error| -> Box<dyn Error> { error })?.to_bytes();
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}

/// Flags of the commands that can use a running service instead of the store.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Remote {
    /// Ask this running service in place of the store, such as http://10.0.0.7:9090: its
    /// http.admin_listen or, with a token that has the permission admin, http.listen.
    #[arg(long, global = true, value_name = "URL")]
    server: Option<Uri>,
    /// A file with the token that is sent to --server.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file of authorities, one of which must have signed the certificate of --server;
    /// needed for https.
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Send the token over http, too, if --server is another machine: anyone on the way can read
    /// it.
    #[arg(long, global = true)]
    plain_http: bool,
}

impl Remote {
    /// Returns the client of the service that the flags name, if they name one.
    pub(super) fn client(&self) -> Result<Option<Client>, Failure> {
        let Some(url) = &self.server else {
            let given = [
                ("--token-file", self.token_file.is_some()),
                ("--ca-file", self.ca_file.is_some()),
                ("--plain-http", self.plain_http),
            ];
            return match given.into_iter().find(|(_, is_given)| *is_given) {
                Some((flag, _)) => Err(Failure::Usage(format!("{flag}: needs --server"))),
                None => Ok(None),
            };
        };
        let address = Address::of("--server", url)?;
        let read = |flag: &str, path: &PathBuf| {
            small_file::read_text(path)
                .map_err(|error| Failure::Usage(format!("{flag} {}: {error}", path.display())))
        };
        let trust = match &self.ca_file {
            Some(_) if !address.is_tls => {
                return Err(Failure::usage(
                    "--ca-file: must be left out, unless --server is https",
                ));
            }
            Some(path) => {
                let pem = read("--ca-file", path)?;
                let unusable =
                    |reason| Failure::Usage(format!("--ca-file {}: {reason}", path.display()));
                Trust::of_authorities(&pem).map_err(unusable)?
            }
            None if address.is_tls => {
                return Err(Failure::usage(
                    "--ca-file: must be given with https, a PEM file of authorities that may have \
                     signed the certificate of --server",
                ));
            }
            None => Trust::Anybody,
        };
        let authorization = match &self.token_file {
            None => None,
            Some(_) if !address.is_private() && !self.plain_http => {
                return Err(Failure::Usage(format!(
                    "--token-file: is not sent to {address}, because anyone on the way could read \
                     the token: use https with --ca-file, a tunnel to a port of this machine \
                     (kubectl port-forward, ssh -L), or --plain-http to send it all the same"
                )));
            }
            Some(path) => {
                let token = read("--token-file", path)?;
                let header = HeaderValue::try_from(format!("Bearer {}", token.trim()));
                let mut header = header.map_err(|_| {
                    let reason = "must contain a token, and nothing else";
                    Failure::Usage(format!("--token-file {}: {reason}", path.display()))
                })?;
                header.set_sensitive(true);
                Some(header)
            }
        };
        Ok(Some(Client { address, trust, authorization }))
    }
}

/// Returns the failure of a command that no service does for its clients.
pub(super) fn needs_store(command: &str) -> Failure {
    Failure::Usage(format!(
        "{command}: needs the store itself, because no service does this for its clients: run it \
         without --server where store.url names the store"
    ))
}

/// Asks one service, with a token.
#[derive(Debug)]
pub(super) struct Client {
    address: Address,
    trust: Trust,
    authorization: Option<HeaderValue>,
}

impl Client {
    pub(super) const fn address(&self) -> &Address {
        &self.address
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.request(Method::GET, path, HeaderMap::new(), None).await
    }

    /// Sends a change with this JSON body.
    pub(super) async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<&impl Serialize>,
    ) -> Result<T, Failure> {
        let body = body.map(|body| serde_json::to_vec(body).expect("texts and numbers are JSON"));
        self.request(method, path, headers, body).await
    }

    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: Option<Vec<u8>>,
    ) -> Result<T, Failure> {
        let place = format!("{}{path}", self.address);
        let failed = |reason: String| Failure::Failed(format!("{place}: {reason}"));
        if let Some(authorization) = &self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        if body.is_some() {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
        }
        let request = Request::builder().method(method).uri(path);
        let mut request = request
            .body(Full::from(body.unwrap_or_default()))
            .map_err(|error| failed(error.to_string()))?;
        request.headers_mut().extend(headers);
        let answer = tokio::time::timeout(TIMEOUT, self.address.send(request, &self.trust)).await;
        let answer = answer.map_err(|_| failed(format!("no answer within {TIMEOUT:?}")))?;
        let Answer { status, body } = answer.map_err(|error| failed(with_sources(&*error)))?;
        if !status.is_success() {
            let reason = format!("{place}: {status}: {}", detail(&body));
            return Err(match status {
                // A retry can succeed.
                StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                    Failure::Failed(reason)
                }
                // The operator must change the request or the token.
                _ if status.is_client_error() => Failure::Usage(reason),
                _ => Failure::Failed(reason),
            });
        }
        serde_json::from_str(&body).map_err(|error| {
            failed(format!("the answer is not the one of a Raindrop of this version: {error}"))
        })
    }
}

/// Returns the detail of a problem document, or the beginning of another text.
fn detail(body: &str) -> String {
    let problem: Option<Value> = serde_json::from_str(body).ok();
    let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
    visible(detail.unwrap_or(body)).chars().take(1_000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let of = |url: &str| Address::of("--server", &url.parse().expect("a URI"));
        for (url, address) in [
            ("http://ids:9090", "http://ids:9090"),
            ("http://ids/", "http://ids:80"),
            ("https://[::1]", "https://[::1]:443"),
        ] {
            assert_eq!(of(url).expect(url).to_string(), address);
        }
        for url in [
            "ids:9090",
            "ftp://ids",
            "http://user:secret@ids",
            "http://ids/cluster",
            "/a",
            "http://ids:90900",
            "http://ids:9O90",
            "http://ids:",
        ] {
            let Err(Failure::Usage(text)) = of(url) else { panic!("{url} is no address") };
            assert!(text.ends_with("must be http(s)://host:port"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn files_are_checked_before_anything_is_sent() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            Some(path)
        };
        let client = |url: Option<&str>, token_file, ca_file| {
            let server = url.map(|url| url.parse().expect("a URI"));
            match (Remote { server, token_file, ca_file, plain_http: false }).client() {
                Ok(client) => Ok(client.is_some()),
                Err(failure) => Err(failure.text().to_owned()),
            }
        };
        let (http, https) = (Some("http://localhost:9090"), Some("https://ids:9090"));
        assert_eq!(client(None, None, None), Ok(false));
        assert_eq!(client(http, file("token", "raindrop_0\n"), None), Ok(true));
        for (url, token, ca, said) in [
            (None, file("a", "a"), None, "--token-file: needs --server"),
            (None, None, file("a", "a"), "--ca-file: needs --server"),
            (http, None, file("a", "a"), "must be left out"),
            (https, None, None, "must be given with https"),
            (https, None, file("a", "a"), "no certificate"),
            (http, file("b", "a\nb"), None, "must contain a token, and nothing else"),
            (http, Some(folder.path().join("nowhere")), None, "nowhere"),
        ] {
            let refused = client(url, token, ca).expect_err(said);
            assert!(refused.contains(said), "{said}: {refused}");
        }
    }

    #[test]
    fn token_is_sent_unencrypted_only_within_this_machine_or_on_demand() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        std::fs::write(&file, "raindrop_0").expect("written");
        let client = |url: &str, has_token: bool, plain_http| {
            let server = Some(url.parse().expect("a URI"));
            let token_file = has_token.then(|| file.clone());
            let remote = Remote { server, token_file, ca_file: None, plain_http };
            remote.client().map(|client| client.is_some())
        };
        for url in ["http://localhost:9090", "http://127.0.0.9", "http://[::1]:9090"] {
            assert!(client(url, true, false).expect(url));
        }
        for url in
            ["http://ids:9090", "http://10.0.0.7", "http://[fd00::1]", "http://localhost.org"]
        {
            let Err(Failure::Usage(text)) = client(url, true, false) else { panic!("{url}") };
            assert!(text.contains(url) && text.contains("--plain-http"), "{text}");
            assert!(client(url, true, true).expect(url));
            // Nothing that is secret.
            assert!(client(url, false, false).expect(url));
        }
    }
}
