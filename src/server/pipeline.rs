//! Answers every request: one function applies the checks, whichever route the request is for.

use std::{
    mem,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use axum::{
    BoxError, Router,
    body::{Body, Bytes, HttpBody},
    extract::{ConnectInfo, Request as AxumRequest},
    http::{HeaderMap, Method, Request, Response, header, request::Parts},
    routing::any,
};
use percent_encoding::percent_decode_str;

use super::{
    auth::{Auth, Caller},
    body::{self, ResponseBody},
    checks::{check_length, drain, within},
    client_address::Peer,
    cors::{AllowedOrigins, Cors, is_preflight},
    endpoints::{
        ROUTES,
        cluster::cluster,
        ids::{IdResponse, claim},
    },
    host::{check_admin_host, check_host},
    metrics::RouteMetrics,
    openapi,
    problem::{Problem, ProblemCode},
    route::{Call, Handler, Listener, Route},
    state::AppState,
};

/// The whole service as a router, to be nested in one of your own. [`serve`](super::serve()) sends
/// requests through the same pipeline without a router.
pub fn router(state: Arc<AppState>) -> Router {
    let pipeline = Arc::new(Pipeline::new(state, false));
    let paths: Vec<_> = pipeline.routes.iter().map(|served| served.route.path).collect();
    let answer = any(move |request: AxumRequest| {
        let pipeline = Arc::clone(&pipeline);
        let info = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let peer = Peer { address: info.map(|info| info.0.ip()) };
        async move { pipeline.answer(request, peer, || ()).await.response.map(Body::new) }
    });
    let router = Router::new().fallback_service(answer.clone());
    paths.into_iter().fold(router, |router, path| router.route(path, answer.clone()))
}

/// The routes of a listener, and the checks around them.
pub(super) struct Pipeline {
    state: Arc<AppState>,
    routes: Vec<Served>,
    /// The metrics of requests that match no route.
    unmatched: RouteMetrics,
    auth: Option<Arc<Auth>>,
    cors: Option<Cors>,
    /// None when pages of every origin may call.
    origins: Option<AllowedOrigins>,
    is_operators: bool,
    api_document: OnceLock<Bytes>,
}

/// A route and its metrics.
struct Served {
    route: &'static Route,
    metrics: RouteMetrics,
}

/// The answer to a request.
pub(super) struct Answer {
    pub(super) response: Response<ResponseBody>,
    /// Whether the client showed a token that is known, or needed none.
    pub(super) is_authorised: bool,
}

/// What a handler made.
enum Reply {
    Ids(IdResponse),
    Other(Response<ResponseBody>),
}

impl Pipeline {
    /// The pipeline of the public listener, or of the operators' one, which has neither IDs nor
    /// tokens.
    pub(super) fn new(state: Arc<AppState>, is_operators: bool) -> Self {
        let is_served = |route: &&Route| match route.listener {
            Listener::Public => !is_operators,
            Listener::Both => true,
            Listener::OperatorsFirst => is_operators || state.http.admin_listen.is_none(),
            Listener::OperatorsOnly => is_operators,
        };
        let metrics = &state.metrics.http;
        let served =
            |route: &'static Route| Served { route, metrics: metrics.route(route.path, "200") };
        Self {
            routes: ROUTES.into_iter().filter(is_served).map(served).collect(),
            unmatched: metrics.route("<unmatched>", "404"),
            auth: state.auth.clone().filter(|_| !is_operators),
            cors: Cors::new(&state.http.cors_origins).filter(|_| !is_operators),
            origins: AllowedOrigins::new(&state.http.cors_origins).filter(|_| !is_operators),
            is_operators,
            api_document: OnceLock::new(),
            state,
        }
    }

    /// Answers a request; calls `body_was_read` once its body is read, if it has one.
    pub(super) async fn answer<B>(
        &self,
        request: Request<B>,
        peer: Peer,
        body_was_read: impl FnOnce() + Send,
    ) -> Answer
    where
        B: HttpBody<Error: Into<BoxError>> + Send + Unpin,
    {
        let tracked = self.state.metrics.http.begin();
        let (mut head, body) = request.into_parts();
        let path = head.uri.path();
        let served = self.routes.iter().find_map(|served| {
            let parameter = served.route.parameter_in(path)?;
            Some((served, parameter))
        });
        let for_browsers = |(served, _): (&Served, _)| Cors::applies(served.route, &head);
        let cors = self.cors.as_ref().filter(|_| served.is_some_and(for_browsers));
        let mut is_authorised = self.auth.is_none();
        let reply = match self.admit(served.map(|(served, _)| served.route), &head, peer) {
            Ok(()) => {
                let request = (&head, peer, body);
                self.check(served, cors, request, body_was_read, &mut is_authorised).await
            }
            Err(refused) => Err(refused),
        };
        let served = served.map(|(served, _)| served);
        let mut response = match reply {
            // The request's header map becomes the response's.
            Ok(Reply::Ids(ids)) if cors.is_none() => {
                ids.into_response(mem::take(&mut head.headers))
            }
            Ok(Reply::Ids(ids)) => ids.into_response(HeaderMap::new()),
            Ok(Reply::Other(response)) => response,
            Err(problem) => {
                // Pages of other sites are forbidden before any token is looked at.
                let has_token = self.auth.is_some() && is_authorised;
                if problem.code() == ProblemCode::Forbidden && has_token {
                    self.state.metrics.auth_refused.with_label_values(&["forbidden"]).inc();
                }
                problem.response()
            }
        };
        if head.method == Method::HEAD {
            remove_body(&mut response);
        }
        let metrics = served.map_or(&self.unmatched, |served| &served.metrics);
        tracked.answered(metrics, &head.method, response.status());
        if let Some(cors) = cors {
            response = Box::pin(cors.add_headers(head, response)).await;
        }
        Answer { response, is_authorised }
    }

    /// Refuses a request by its head, whoever sends it.
    fn admit(&self, route: Option<&Route>, head: &Parts, peer: Peer) -> Result<(), Problem> {
        check_length(&head.uri)?;
        // A router's requests were checked by its server, or never were on a connection.
        if peer.address.is_some() {
            check_host(head)?;
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

    async fn check<B>(
        &self,
        served: Option<(&Served, &str)>,
        cors: Option<&Cors>,
        (head, peer, body): (&Parts, Peer, B),
        body_was_read: impl FnOnce() + Send,
        is_authorised: &mut bool,
    ) -> Result<Reply, Problem>
    where
        B: HttpBody<Error: Into<BoxError>> + Send + Unpin,
    {
        let time_limit = self.state.http.request_timeout;
        if !body.is_end_stream() {
            let drained = Box::pin(within(time_limit, drain(body))).await;
            body_was_read();
            drained??;
        }
        if cors.is_some() && is_preflight(head) {
            return Ok(Reply::Other(Response::default()));
        }
        let needs_token = served.is_none_or(|(served, _)| served.route.needs_token);
        let caller = match self.auth.as_ref().filter(|_| needs_token) {
            Some(auth) => auth.authenticate(&head.headers, &self.state.metrics.auth_refused)?,
            None => Caller::default(),
        };
        *is_authorised |= needs_token;
        self.state.clients.limit_token(&caller)?;
        let Some((Served { route, .. }, parameter)) = served else {
            let detail = format!("there is no route {:?}", head.uri.path());
            return Err(Problem::new(ProblemCode::NotFound, detail));
        };
        let _in_flight = if route.is_for_clients { Some(self.state.enter()?) } else { None };
        within(time_limit, self.handle(route, head, (caller, peer), parameter)).await?
    }

    async fn handle(
        &self,
        route: &Route,
        head: &Parts,
        (caller, peer): (Caller, Peer),
        parameter: &str,
    ) -> Result<Reply, Problem> {
        if !route.allows(&head.method) {
            let detail = format!("{} is not allowed on {:?}", head.method, head.uri.path());
            let problem = Problem::new(ProblemCode::MethodNotAllowed, detail);
            return Err(problem.with_header(header::ALLOW, route.allowed()));
        }
        let parameter = percent_decode_str(parameter).decode_utf8().ok();
        let is_operator = self.is_operators;
        let call = Call { route, state: &self.state, head, caller, peer, is_operator, parameter };
        match route.handler {
            Handler::Claim { is_batch } => claim(&call, is_batch).await.map(Reply::Ids),
            Handler::Ready(handler) => handler(&call).map(Reply::Other),
            // Boxed, so that every other request carries less from call to call.
            Handler::Cluster => Box::pin(cluster(&call)).await.map(Reply::Other),
            Handler::ApiDocument => {
                // Made when it is first needed: that takes more memory than much of the rest.
                let routes = self.routes.iter().map(|served| served.route);
                let document = || openapi::document(&self.state, &Vec::from_iter(routes));
                let document = self.api_document.get_or_init(document).clone();
                Ok(Reply::Other(body::response("application/json", document)))
            }
        }
    }
}

/// Replaces the body of a response to HEAD by its length, if that is known.
fn remove_body(response: &mut Response<ResponseBody>) {
    if let ResponseBody::Full(bytes) = response.body() {
        let length = bytes.len().into();
        response.headers_mut().insert(header::CONTENT_LENGTH, length);
        *response.body_mut() = ResponseBody::default();
    }
}
