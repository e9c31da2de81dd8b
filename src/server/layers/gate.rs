//! Decides which requests reach a handler.
//!
//! [`Rules::admit`] makes every check in its order, and returns the [`Client`] that handlers then
//! extract. [`Rules::pass`] first moves the connection of a client from a spare place to one of the
//! clients', which can take seconds. That wait comes before every check, and is not part of the
//! request's time-out.
//!
//! The gate does not limit how many claims are in flight (`AppState::begin_claim`), nor how long a
//! handler takes (`layers::mod`). A check that needs the content of the body is the handler's.
//! tests/http/matrix.rs tries every caller with every route; hosts.rs, cors.rs and tokens.rs beside
//! it test single checks.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    extract::{ConnectInfo, Request},
    http::{Method, Uri, header},
};

use super::{
    browsers::{check_origin, check_own_page},
    host::{check_admin_host, check_coding, check_host},
};
use crate::{
    auth::{Auth, Caller, ClientCertificate},
    server::{
        audience::{Audience, Listener, TokensFor},
        clients::subscriber,
        extract::{Client, Sender, check_body},
        listener::{Connection, NoPlace},
        request_log::LoggedRequest,
        response::{Problem, ProblemCode},
        state::AppState,
    },
};

/// The longest request target in bytes; the longest useful one has a few hundred.
const LONGEST_URI: usize = 4096;

/// Admits or refuses the requests to the routes of one audience.
#[derive(Debug)]
pub(super) struct Rules {
    state: Arc<AppState>,
    audience: Audience,
    listener: Listener,
    tokens_for: TokensFor,
}

impl Rules {
    pub(super) fn new(state: &Arc<AppState>, listener: Listener, audience: Audience) -> Self {
        let tokens_for = TokensFor::of(listener, state.auth.is_some());
        Self { state: Arc::clone(state), audience, listener, tokens_for }
    }

    /// Admits a request and records its client, or refuses it. The line of the request in the log
    /// learns of the client what is known.
    pub(super) async fn pass(
        &self,
        request: &mut Request,
        mut logged: Option<&mut LoggedRequest>,
    ) -> Result<(), Problem> {
        let connection = Sender::connection(request);
        let address = self.address(request, connection);
        if let Some(logged) = &mut logged {
            logged.address = address;
        }
        if self.audience == Audience::Clients
            && let Some(connection) = connection
        {
            connection.leave_spare_place().await.map_err(|reason| self.no_place(reason))?;
        }
        let client = self.admit(request, connection, address)?;
        if let Some(logged) = logged {
            logged.caller = client.caller.clone();
        }
        Sender::set_client(request, client);
        Ok(())
    }

    /// Returns the address of the client, unless neither one of our listeners nor an embedding
    /// server's `ConnectInfo` tells the peer.
    fn address(&self, request: &Request, connection: Option<&Arc<Connection>>) -> Option<IpAddr> {
        let peer = connection.map(|connection| connection.peer).or_else(|| {
            let accepted_elsewhere = request.extensions().get::<ConnectInfo<SocketAddr>>();
            accepted_elsewhere.map(|info| info.0)
        });
        peer.map(|peer| self.state.clients.address(peer.ip(), request.headers()))
    }

    /// Returns the client of a request that passes every check.
    fn admit(
        &self,
        request: &Request,
        connection: Option<&Arc<Connection>>,
        address: Option<IpAddr>,
    ) -> Result<Client, Problem> {
        let headers = request.headers();
        check_length(request.uri())?;
        // Without an address the request came from the process itself, or its embedding server has
        // checked it.
        if address.is_some() {
            check_host(request.version(), request.uri(), headers)?;
            check_coding(headers)?;
        }
        let address = address.map(subscriber);
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
                // Probes often share their address with clients, for example behind a load
                // balancer.
                if self.audience != Audience::Anybody {
                    self.state.clients.limit_address(address)?;
                }
            }
        }
        let needs_token = match self.tokens_for {
            TokensFor::Nothing => false,
            TokensFor::Changes => is_change,
            // A request that names a namespace tells whether it exists, which only token holders
            // may learn.
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
        if self.audience == Audience::Clients
            && let Some(connection) = connection
        {
            connection.note_admitted(request.body());
        }
        Ok(Client {
            caller,
            address,
            version: request.version(),
            listener: self.listener,
            audience: self.audience,
            unsent_budget: self.state.unsent_budget.clone(),
        })
    }

    /// Returns the problem of a client whose connection got none of the clients' places.
    fn no_place(&self, reason: NoPlace) -> Problem {
        let detail = format!("http.max_connections ({}) is used up", self.state.max_connections);
        let problem = Problem::passing(ProblemCode::Overloaded, detail, Duration::from_secs(1));
        match reason {
            NoPlace::UsedUp => problem.with_header(header::CONNECTION, "close"),
            // Another request of the connection still waits for a place, so the connection stays
            // open.
            NoPlace::AlreadyWaiting => problem,
        }
    }

    fn authenticate(&self, auth: &Auth, request: &Request) -> Result<Caller, Problem> {
        // The connection inserted it after the handshake.
        let certificate = request.extensions().get::<Arc<ClientCertificate>>().map(Arc::as_ref);
        let now_ms = self.state.clock.now_ms();
        auth.authenticate(request.headers(), certificate, now_ms).map_err(|refusal| {
            self.state.metrics.auth_refused.with_label_values(&[refusal.reason()]).inc();
            refusal.into()
        })
    }
}

/// Returns the problem of a change where neither tokens nor `http.admin_changes` permit any.
fn not_open() -> Problem {
    let detail = "changes need auth.tokens_file and a token with the permission admin, or \
                  http.admin_changes = true";
    Problem::new(ProblemCode::Forbidden, detail)
}

fn asks_of_a_namespace(uri: &Uri) -> bool {
    let mut pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    uri.path() == "/readyz" && pairs.any(|(name, _)| name == "namespace")
}

/// Refuses a request target that is too long.
fn check_length(uri: &Uri) -> Result<(), Problem> {
    let length = uri.path_and_query().map_or(0, |uri| uri.as_str().len());
    if length <= LONGEST_URI {
        return Ok(());
    }
    let detail = format!("the request target has {length} bytes: must be at most {LONGEST_URI}");
    Err(Problem::new(ProblemCode::UriTooLong, detail))
}
