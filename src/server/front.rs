//! How a request comes from a connection: plain claims on a short way, everything else through the
//! router. Both ways answer the same.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    http::{Method, Request, Response, header, request::Parts},
    response::IntoResponse,
};
use hyper::{
    body::{Frame, Incoming, SizeHint},
    service::Service,
};
use hyper_util::service::TowerToHyperService;

use super::{
    auth::{Caller, Known},
    endpoints::{answer::Answer, asked::Asked},
    guard::{check_length, guarded},
    problem::Problem,
    router::{MANY, ONE, admin_router, router},
    state::AppState,
};

/// What answers the requests of every connection; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Front {
    state: Arc<AppState>,
    router: TowerToHyperService<Router>,
    issues: bool,
}

impl Front {
    pub(super) fn new(state: Arc<AppState>) -> Self {
        let router = TowerToHyperService::new(router(Arc::clone(&state)));
        Self { router, state, issues: true }
    }

    /// For operators: no IDs, and no tokens.
    pub(super) fn admin(state: Arc<AppState>) -> Self {
        let router = TowerToHyperService::new(admin_router(Arc::clone(&state)));
        Self { router, state, issues: false }
    }

    /// Answers a request. The router finds a route, takes the request apart and boxes a future for
    /// every layer, which together cost several times what it takes to issue an ID.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        match short_way(&request).filter(|_| self.issues) {
            Some(ONE) => self.issue::<false>(ONE, request.into_parts().0).await,
            Some(_) => self.issue::<true>(MANY, request.into_parts().0).await,
            None => self.route(request).await,
        }
    }

    async fn route(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        let Ok(response) = Box::pin(self.router.call(request)).await;
        response.map(AnswerBody::Other)
    }

    /// What the layers of the router do, in the same order.
    async fn issue<const MANY: bool>(&self, route: usize, mut head: Parts) -> Response<AnswerBody> {
        let tracked = self.state.metrics.http.begin();
        let caller = check_length(&head.uri).and_then(|()| self.state.admit(&head.headers));
        let is_known = self.needs_token() && caller.is_ok();
        let claimed = match caller {
            Ok(caller) => self.claim::<MANY>(route, &head, &caller).await,
            Err(refused) => Err(refused),
        };
        let mut response = match claimed {
            Ok(answer) => answer.into_response(mem::take(&mut head.headers)).map(AnswerBody::Whole),
            Err(problem) => problem.into_response().map(AnswerBody::Other),
        };
        if is_known {
            response.extensions_mut().insert(Known);
        }
        tracked.answered(route, &head.method, response.status());
        response
    }

    async fn claim<const MANY: bool>(
        &self,
        route: usize,
        head: &Parts,
        caller: &Caller,
    ) -> Result<Answer, Problem> {
        let _place = self.state.enter()?;
        guarded(self.state.http.request_timeout, async {
            let code = &head.uri.path()[PREFIXES[route].len()..];
            Asked::<MANY>::read(code, head, caller, &self.state)?.answer().await
        })
        .await?
    }

    fn needs_token(&self) -> bool {
        self.issues && self.state.auth.is_some()
    }

    /// Whether this answers a request of somebody who may ask: not one to an open route, where
    /// requests need a token.
    pub(super) fn is_for_client(&self, answer: &Response<AnswerBody>) -> bool {
        !self.needs_token() || answer.extensions().get::<Known>().is_some()
    }
}

/// What stands before the code, by route.
const PREFIXES: [&str; 2] = ["/id/", "/ids/"];

/// The route of a plain claim: one of no browser, without a body, whose code needs no decoding.
fn short_way(request: &Request<Incoming>) -> Option<usize> {
    let claims = request.method() == Method::GET || request.method() == Method::POST;
    let is_plain = claims && request.body().is_end_stream();
    if !is_plain || request.headers().contains_key(header::ORIGIN) {
        return None;
    }
    let path = request.uri().path();
    let route = PREFIXES.iter().position(|prefix| path.starts_with(prefix))?;
    let code = &path.as_bytes()[PREFIXES[route].len()..];
    let is_plain = !code.is_empty() && !code.iter().any(|byte| matches!(byte, b'/' | b'%'));
    is_plain.then_some(route)
}

/// The body of an answer.
#[derive(Debug)]
pub(super) enum AnswerBody {
    /// Of the short way: all of it; empty when it was taken.
    Whole(Bytes),
    /// Whatever a handler makes.
    Other(Body),
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(mem::take(bytes))))),
            Self::Other(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Other(body) => body.size_hint(),
        }
    }
}
