//! Who may pass to a route. The checks stand in one function, in the order in which they are made.

use std::{
    future::ready,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::HttpBody as _,
    extract::{ConnectInfo, Query, Request},
    http::{Method, Uri, header},
    response::{IntoResponse as _, Response},
};
use futures_util::future::{BoxFuture, Either};
use tower::{Layer, Service, layer::layer_fn};

use super::{
    browsers::{check_origin, check_own_page},
    host::{check_admin_host, check_coding, check_host},
};
use crate::{
    auth::{Auth, Caller, ClientCertificate},
    server::{
        audience::{Audience, Listener, TokensFor},
        extract::{Client, check_body},
        listener::{Connection, NoPlace},
        response::{Problem, ProblemCode},
        state::AppState,
    },
};

/// The longest address in bytes; the longest useful one has a few hundred.
const LONGEST_URI: usize = 4096;

/// Lets in whom a group of routes is for.
pub(in crate::server) fn gate<S>(
    state: &Arc<AppState>,
    listener: Listener,
    audience: Audience,
) -> impl Layer<S, Service = Gate<S>> + Clone + use<S> {
    let tokens_for = TokensFor::of(listener, state.auth.is_some());
    let rules = Arc::new(Rules { state: Arc::clone(state), audience, listener, tokens_for });
    layer_fn(move |inner| Gate { inner, rules: Arc::clone(&rules) })
}

#[derive(Debug)]
struct Rules {
    state: Arc<AppState>,
    audience: Audience,
    listener: Listener,
    tokens_for: TokensFor,
}

impl Rules {
    /// Who sends this request, if it may pass.
    fn admit(&self, request: &Request) -> Result<Client, Problem> {
        let headers = request.headers();
        check_length(request.uri())?;
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let address = peer.map(|peer| self.state.clients.address(peer.0.ip(), headers));
        // Other requests were checked by whoever accepted them, or never were on a connection.
        if peer.is_some() {
            check_host(request.version(), request.uri(), headers)?;
            check_coding(headers)?;
        }
        let is_change = self.audience == Audience::Operators
            && !matches!(*request.method(), Method::GET | Method::HEAD);
        if is_change {
            check_own_page(headers)?;
        }
        match self.listener {
            Listener::Operators => check_admin_host(headers, &self.state.http.admin_hosts)?,
            Listener::Public => {
                if self.audience == Audience::Clients {
                    check_origin(&self.state.http.cors_origins, headers)?;
                }
                // Probes often come from an address that clients have too.
                if self.audience != Audience::Anybody {
                    self.state.clients.limit_address(address)?;
                }
            }
        }
        let needs_token = match self.tokens_for {
            TokensFor::Nothing => false,
            TokensFor::Changes => is_change,
            // Strangers are not told which namespaces there are.
            TokensFor::Everything => {
                self.audience != Audience::Anybody || asks_of_a_namespace(request.uri())
            }
        };
        let caller = match &self.state.auth {
            Some(auth) if needs_token => self.authenticate(auth, request)?,
            None if is_change && !self.state.http.admin_changes => return Err(not_open()),
            _ => Caller::default(),
        };
        if self.audience != Audience::Anybody {
            self.state.clients.limit_token(caller.name())?;
        }
        caller.check_permission(self.audience.permission(), request.uri().path())?;
        check_body(request.body())?;
        // No request of a client needs a body: one that has may keep the service waiting.
        if let Some(connection) = request.extensions().get::<Arc<Connection>>()
            && self.audience == Audience::Clients
            && request.body().is_end_stream()
        {
            connection.activity.serves_client();
        }
        Ok(Client {
            caller,
            address,
            version: request.version(),
            listener: self.listener,
            audience: self.audience,
            unsent: self.state.unsent.clone(),
        })
    }

    /// The problem of a client whose connection has none of the clients' places.
    fn no_place(&self, reason: NoPlace) -> Problem {
        let detail = format!("http.max_connections ({}) is used up", self.state.max_connections);
        let problem = Problem::passing(ProblemCode::Overloaded, detail, Duration::from_secs(1));
        match reason {
            NoPlace::UsedUp => problem.with_header(header::CONNECTION, "close"),
            // The connection may still get one.
            NoPlace::AskedFor => problem,
        }
    }

    fn authenticate(&self, auth: &Auth, request: &Request) -> Result<Caller, Problem> {
        // Whoever accepted the connection puts it there.
        let certificate = request.extensions().get::<Arc<ClientCertificate>>().map(Arc::as_ref);
        let now_ms = self.state.clock.now_ms();
        auth.authenticate(request.headers(), certificate, now_ms).map_err(|refusal| {
            self.state.metrics.auth_refused.with_label_values(&[refusal.reason()]).inc();
            refusal.into()
        })
    }
}

#[derive(Clone, Debug)]
pub(in crate::server) struct Gate<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S> Service<Request> for Gate<S>
where
    S: Service<Request, Response = Response, Future: Send> + Clone + Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        if self.rules.audience == Audience::Clients
            && let Some(connection) = request.extensions().get::<Arc<Connection>>()
            && connection.place.is_spare()
        {
            let (connection, mut gate) = (Arc::clone(connection), self.clone());
            return Either::Right(Box::pin(async move {
                match connection.place.change().await {
                    Ok(()) => gate.call(request).await,
                    Err(reason) => Ok(gate.rules.no_place(reason).into_response()),
                }
            }));
        }
        match self.rules.admit(&request) {
            Ok(client) => {
                request.extensions_mut().insert(client);
                Either::Left(self.inner.call(request))
            }
            Err(problem) => Either::Right(Box::pin(ready(Ok(problem.into_response())))),
        }
    }
}

/// The problem of a change where nobody was given the right to make any.
fn not_open() -> Problem {
    let detail = "changes need auth.tokens_file and a token with the permission admin, or \
                  http.admin_changes = true";
    Problem::new(ProblemCode::Forbidden, detail)
}

fn asks_of_a_namespace(uri: &Uri) -> bool {
    let pairs = || Query::<Vec<(String, String)>>::try_from_uri(uri);
    let is_named = |Query(pairs): Query<Vec<(String, String)>>| {
        pairs.iter().any(|(name, _)| name == "namespace")
    };
    uri.path() == "/readyz" && pairs().is_ok_and(is_named)
}

/// Refuses an address that is too long.
fn check_length(uri: &Uri) -> Result<(), Problem> {
    let length = uri.path_and_query().map_or(0, |uri| uri.as_str().len());
    if length <= LONGEST_URI {
        return Ok(());
    }
    let detail = format!("the request target has {length} bytes: must be at most {LONGEST_URI}");
    Err(Problem::new(ProblemCode::UriTooLong, detail))
}
