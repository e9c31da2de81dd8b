//! Answers every request: one function applies the checks, whichever route the request is for.

use std::{
    mem,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    BoxError, Router,
    body::{Body, Bytes, HttpBody},
    extract::{ConnectInfo, Request as AxumRequest},
    http::{HeaderMap, HeaderValue, Method, Request, Response, header, request::Parts},
    routing::any,
};
use percent_encoding::percent_decode_str;

use super::{
    auth::{Auth, Caller, ClientCertificate},
    body::ResponseBody,
    checks::{check_content, check_length, read_body, within},
    client_address::Peer,
    conditional::Document,
    console::Console,
    cors::{AllowedOrigins, Cors, check_own_page, is_preflight},
    endpoints::{
        ROUTES,
        ids::{IdResponse, claim},
    },
    host::{check_admin_host, check_host},
    metrics::RouteMetrics,
    openapi,
    problem::{Problem, ProblemCode},
    route::{Call, Handler, Kind, Listener, Route},
    state::AppState,
    tls::Tls,
    unsent::UnsentBudget,
};
use crate::config::HttpConfig;

/// The whole service as a router, to be nested in one of your own. [`serve`](super::serve()) sends
/// requests through the same pipeline without a router.
pub fn router(state: Arc<AppState>) -> Router {
    let pipeline = Arc::new(Pipeline::new(state, false));
    let paths: Vec<_> = pipeline.routes.iter().map(|served| served.route.path).collect();
    let answer = any(move |request: AxumRequest| {
        let pipeline = Arc::clone(&pipeline);
        let info = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let peer = Peer { address: info.map(|info| info.0.ip()) };
        async move {
            let (mut head, body) = request.into_parts();
            pipeline.answer((&mut head, body), peer, || ()).await.response.map(Body::new)
        }
    });
    let router = Router::new().fallback_service(answer.clone());
    paths.into_iter().fold(router, |router, path| router.route(path, answer.clone()))
}

/// The routes of a listener, and the checks around them.
pub(super) struct Pipeline {
    state: Arc<AppState>,
    routes: Vec<Served>,
    /// The metrics of requests that match no route.
    unmatched: Arc<RouteMetrics>,
    auth: Option<Arc<Auth>>,
    cors: Option<Cors>,
    /// None when pages of every origin may call.
    origins: Option<AllowedOrigins>,
    is_operators: bool,
    api_document: OnceLock<Document>,
    console: OnceLock<Console>,
}

/// A route and its metrics.
struct Served {
    route: &'static Route,
    /// What stands around the parameter in its path.
    around: Option<[&'static str; 2]>,
    metrics: Arc<RouteMetrics>,
}

/// The answer to a request.
pub(super) struct Answer {
    pub(super) response: Response<ResponseBody>,
    /// Whether it is for a client: one that showed a token that is known, or needs none.
    pub(super) is_of_client: bool,
}

/// A request whose head has passed every check.
enum Admitted<'a> {
    /// A browser's question, which the CORS headers answer.
    Preflight,
    /// A request of this caller for this route, with the path's parameter.
    Request { route: &'static Route, parameter: &'a str, caller: Caller },
}

/// What a handler made.
enum Reply {
    Ids(IdResponse),
    /// Boxed, so that IDs carry less from call to call.
    Other(Box<Response<ResponseBody>>),
}

impl Pipeline {
    /// The pipeline of the public listener, or of the operators' one, which has neither IDs nor
    /// tokens.
    pub(super) fn new(state: Arc<AppState>, is_operators: bool) -> Self {
        let is_here = |route: &Route| match route.listener {
            Listener::Public => !is_operators,
            Listener::Both => true,
            Listener::OperatorsFirst => is_operators || state.http.admin_listen.is_none(),
            Listener::Operators => is_operators || state.auth.is_some(),
        };
        let is_served =
            |route: &&Route| is_here(route) && (route.kind != Kind::Page || state.http.console);
        let metrics = &state.metrics.http;
        let served = |route: &'static Route| {
            let metrics = metrics.route(route.path, "200");
            Served { route, around: route.around_parameter(), metrics }
        };
        Self {
            routes: ROUTES.into_iter().filter(is_served).map(served).collect(),
            unmatched: metrics.route("<unmatched>", "404"),
            auth: state.auth.clone().filter(|_| !is_operators),
            cors: Cors::new(&state.http.cors_origins).filter(|_| !is_operators),
            origins: AllowedOrigins::new(&state.http.cors_origins).filter(|_| !is_operators),
            is_operators,
            api_document: OnceLock::new(),
            console: OnceLock::new(),
            state,
        }
    }

    /// Answers a request; calls `body_was_read` once its body is read, if it has one.
    pub(super) async fn answer<B>(
        &self,
        (head, body): (&mut Parts, B),
        peer: Peer,
        body_was_read: impl FnOnce() + Send,
    ) -> Answer
    where
        B: HttpBody<Error: Into<BoxError>> + Send + Unpin,
    {
        let tracked = self.state.metrics.http.begin();
        let path = head.uri.path();
        let served = self.find(path);
        let is_for_clients = served.is_some_and(|(served, _)| served.route.is_for_clients);
        let for_browsers = |(served, _): (&Served, _)| Cors::applies(served.route, head);
        let cors = self.cors.as_ref().filter(|_| served.is_some_and(for_browsers));
        let mut is_authorised = self.auth.is_none();
        let admitted = self.admit(served, cors, (head, peer), &mut is_authorised);
        // Whoever waits for 100 Continue is not asked for a body that changes nothing.
        let leaves_body =
            admitted.is_err() && !body.is_end_stream() && expects_continue(&head.headers);
        let reply = match admitted {
            Err(problem) if leaves_body => Err(problem),
            admitted => self.check(admitted, (head, peer, body), body_was_read).await,
        };
        let served = served.map(|(served, _)| served);
        let mut response = match reply {
            // The request's header map becomes the response's.
            Ok(Reply::Ids(ids)) if cors.is_none() => {
                ids.into_response(mem::take(&mut head.headers))
            }
            Ok(Reply::Ids(ids)) => ids.into_response(HeaderMap::new()),
            Ok(Reply::Other(response)) => *response,
            Err(problem) => {
                // Pages of other sites are forbidden before any token is looked at.
                let has_token = self.auth.is_some() && is_authorised;
                if problem.code() == ProblemCode::Forbidden && has_token {
                    self.state.metrics.forbidden();
                }
                problem.response()
            }
        };
        if leaves_body {
            // The client may still send it, and then it must not be read as a request.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if head.method == Method::HEAD {
            remove_body(&mut response);
        }
        let metrics = served.map_or(&self.unmatched, |served| &served.metrics);
        tracked.answered(metrics, &head.method, response.status());
        if let Some(cors) = cors {
            let head = mem::replace(head, Request::new(()).into_parts().0);
            response = Box::pin(cors.add_headers(head, response)).await;
        }
        Answer { response, is_of_client: is_authorised && is_for_clients }
    }

    /// The route of a path, and the parameter in the path.
    fn find<'a>(&self, path: &'a str) -> Option<(&Served, &'a str)> {
        let mut all = self.routes.iter();
        all.find_map(|served| Some((served, served.route.parameter_in(served.around, path)?)))
    }

    /// Whether a path is of a route for clients.
    pub(super) fn is_for_clients(&self, path: &str) -> bool {
        self.find(path).is_some_and(|(served, _)| served.route.is_for_clients)
    }

    /// The settings of the listeners.
    pub(super) fn http(&self) -> &HttpConfig {
        &self.state.http
    }

    /// TLS, if the listeners use it.
    pub(super) fn tls(&self) -> Option<&Tls> {
        self.state.tls.as_deref()
    }

    /// The budget of memory for responses.
    pub(super) fn unsent(&self) -> &UnsentBudget {
        &self.state.unsent
    }

    /// Answers a client that has no place.
    pub(super) fn refuse_client(&self, head: &Parts) -> Answer {
        let tracked = self.state.metrics.http.begin();
        let detail = format!("{} connections are open", self.state.http.max_connections);
        let problem = Problem::passing(ProblemCode::Overloaded, detail, Duration::from_secs(1));
        let response = problem.response();
        let served = self.find(head.uri.path());
        let metrics = served.map_or(&self.unmatched, |(served, _)| &served.metrics);
        tracked.answered(metrics, &head.method, response.status());
        Answer { response, is_of_client: false }
    }

    /// Refuses a request by its head, whoever sends it.
    fn check_head(&self, route: Option<&Route>, head: &Parts, peer: Peer) -> Result<(), Problem> {
        check_length(&head.uri)?;
        // A router's requests were checked by its server, or never were on a connection.
        if peer.address.is_some() {
            check_host(head)?;
        }
        if route.is_some_and(|route| route.listener == Listener::Operators)
            && !matches!(head.method, Method::GET | Method::HEAD)
        {
            check_own_page(&head.headers)?;
        }
        if self.is_operators {
            return check_admin_host(&head.headers, &self.state.http.admin_hosts);
        }
        if let Some(origins) = &self.origins
            && route.is_some_and(|route| route.is_for_clients)
        {
            origins.check(&head.headers)?;
        }
        // Probes often come from an address that clients have too.
        if route.is_none_or(|route| route.needs_token) {
            self.state.clients.limit_address(peer, &head.headers)?;
        }
        Ok(())
    }

    /// Applies the checks that need the head of a request alone.
    fn admit<'a>(
        &self,
        served: Option<(&Served, &'a str)>,
        cors: Option<&Cors>,
        (head, peer): (&Parts, Peer),
        is_authorised: &mut bool,
    ) -> Result<Admitted<'a>, Problem> {
        self.check_head(served.map(|(served, _)| served.route), head, peer)?;
        if cors.is_some() && is_preflight(head) {
            return Ok(Admitted::Preflight);
        }
        let needs_token = served.is_none_or(|(served, _)| served.route.needs_token);
        let caller = match self.auth.as_ref().filter(|_| needs_token) {
            Some(auth) => self.authenticate(auth, head)?,
            None => Caller::default(),
        };
        *is_authorised |= needs_token;
        self.state.clients.limit_token(&caller)?;
        let Some((Served { route, .. }, parameter)) = served else {
            return Err(self.not_found(head.uri.path()));
        };
        if !route.allows(&head.method) {
            let detail = format!("{} is not allowed on {:?}", head.method, head.uri.path());
            let problem = Problem::new(ProblemCode::MethodNotAllowed, detail);
            return Err(problem.with_header(header::ALLOW, route.allowed()));
        }
        caller.check_permission(route.permission, head.uri.path())?;
        Ok(Admitted::Request { route, parameter, caller })
    }

    /// The problem of a path without a route here, which says where it has one.
    fn not_found(&self, path: &str) -> Problem {
        let is_of = |route: &&Route| route.parameter_in(route.around_parameter(), path).is_some();
        let elsewhere = match ROUTES.into_iter().find(is_of).map(|route| route.kind) {
            None => "",
            Some(Kind::Page) => ": http.console is false",
            Some(_) if self.is_operators => " on this listener: it is served on http.listen",
            Some(_) if self.state.http.admin_listen.is_some() => {
                " on this listener: it is served on http.admin_listen"
            }
            Some(_) => {
                ": it needs http.admin_listen, or auth.tokens_file and a token with the permission \
                 admin"
            }
        };
        Problem::new(ProblemCode::NotFound, format!("there is no route {path:?}{elsewhere}"))
    }

    fn authenticate(&self, auth: &Auth, head: &Parts) -> Result<Caller, Problem> {
        // Whoever accepted the connection puts it there.
        let certificate = head.extensions.get::<Arc<ClientCertificate>>().map(Arc::as_ref);
        let caller = auth.authenticate(&head.headers, certificate, self.state.clock.now_ms());
        caller.map_err(|refusal| {
            self.state.metrics.refused(refusal);
            refusal.into()
        })
    }

    async fn check<B>(
        &self,
        admitted: Result<Admitted<'_>, Problem>,
        (head, peer, body): (&Parts, Peer, B),
        body_was_read: impl FnOnce() + Send,
    ) -> Result<Reply, Problem>
    where
        B: HttpBody<Error: Into<BoxError>> + Send + Unpin,
    {
        let time_limit = self.state.http.request_timeout;
        let mut content = Bytes::new();
        // Of a refused request too: a client that still sends its body may not read an answer.
        if !body.is_end_stream() {
            let mut read = Box::pin(read_body(body));
            let read = within(time_limit, read.as_mut(), || ()).await;
            body_was_read();
            content = read??;
        }
        let (route, parameter, caller) = match admitted? {
            Admitted::Preflight => return Ok(Reply::Other(Box::default())),
            Admitted::Request { route, parameter, caller } => (route, parameter, caller),
        };
        check_content(route, head, !content.is_empty())?;
        if route.is_for_clients {
            self.state.check_in_flight()?;
        }
        let in_flight = || route.is_for_clients.then(|| self.state.begin_waiting());
        let reply = pin!(self.handle(route, head, (caller, peer), (parameter, content)));
        within(time_limit, reply, in_flight).await?
    }

    async fn handle(
        &self,
        route: &Route,
        head: &Parts,
        (caller, peer): (Caller, Peer),
        (parameter, body): (&str, Bytes),
    ) -> Result<Reply, Problem> {
        let parameter = if parameter.contains('%') {
            percent_decode_str(parameter).decode_utf8().ok()
        } else {
            Some(parameter.into())
        };
        let (state, is_operator) = (&*self.state, self.is_operators);
        let call = Call { route, state, head, caller, peer, is_operator, parameter, body };
        match route.handler {
            Handler::Claim { is_batch } => claim(&call, is_batch).await.map(Reply::Ids),
            Handler::Ready(handler) => self.reserve(route, handler(&call)?),
            Handler::Later(handler) => self.reserve(route, handler(&call).await?),
            Handler::ApiDocument => {
                // Made when it is first needed: that takes more memory than much of the rest.
                let routes = self.routes.iter().map(|served| served.route);
                let needs_token = self.auth.is_some();
                let document = || {
                    let routes = Vec::from_iter(routes);
                    let json = openapi::document(&self.state, &routes, needs_token);
                    Document::new("application/json", json)
                };
                let document = self.api_document.get_or_init(document);
                self.reserve(route, document.answer(&head.headers))
            }
            Handler::Console => {
                let paths = self.routes.iter().map(|served| served.route.path);
                let needs_token = self.auth.is_some();
                let console = || Console::new(&self.state, needs_token, &Vec::from_iter(paths));
                self.reserve(route, self.console.get_or_init(console).answer(&call)?)
            }
        }
    }

    /// Reserves the memory of a response. The operators' listener has few connections.
    fn reserve(
        &self,
        route: &Route,
        mut response: Response<ResponseBody>,
    ) -> Result<Reply, Problem> {
        if !self.is_operators {
            let length = response.body().length().unwrap_or(0);
            // What anybody may load, and TLS copies for each connection, takes nothing of the
            // operators' part.
            let is_for_anybody = matches!(route.kind, Kind::Document | Kind::Page);
            let reserved = self.state.reserve(length, route.is_for_clients || is_for_anybody);
            let reservation = reserved?;
            response.body_mut().keep(reservation);
        }
        Ok(Reply::Other(Box::new(response)))
    }
}

/// Whether the client sends its body only when it is told to (RFC 9110).
fn expects_continue(headers: &HeaderMap) -> bool {
    let expected = headers.get(header::EXPECT);
    expected.is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Replaces the body of a response to HEAD by its length, if that is known.
fn remove_body(response: &mut Response<ResponseBody>) {
    if let Some(length) = response.body().length() {
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        *response.body_mut() = ResponseBody::default();
    }
}
