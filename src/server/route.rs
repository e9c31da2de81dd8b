//! What a route is: one declaration, beside its handler, from which the pipeline, the metrics, the
//! permissions and the API document are made.

use std::{borrow::Cow, pin::Pin};

use axum::{
    body::Bytes,
    http::{Method, Response, request::Parts},
};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{
    auth::{Caller, Permission},
    body::ResponseBody,
    client_address::Peer,
    problem::{Problem, ProblemCode},
    state::AppState,
};

/// A route of the service.
#[derive(Debug)]
pub(super) struct Route {
    /// Its path, with at most one parameter: `/parse/{id}`.
    pub(super) path: &'static str,
    /// The end of its operations' names in the API document; the first part of its path if empty.
    pub(super) operation: &'static str,
    /// What it is for, in a few words.
    pub(super) summary: &'static str,
    /// What it does.
    pub(super) description: &'static str,
    /// Which requests it answers, and how.
    pub(super) kind: Kind,
    /// Where it is served.
    pub(super) listener: Listener,
    /// Whether it needs a token where tokens are configured.
    pub(super) needs_token: bool,
    /// What that token must permit.
    pub(super) permission: Option<Permission>,
    /// Whether it is for clients: counts towards `http.max_in_flight`, and may be called by
    /// browsers.
    pub(super) is_for_clients: bool,
    /// The query parameters that it reads.
    pub(super) parameters: &'static [&'static str],
    /// What its body is read as: the name of a schema, and all that this refers to.
    pub(super) body: Option<(&'static str, Schemas)>,
    /// Its successful responses by media type.
    pub(super) content: &'static [Content],
    /// The schemas that its responses refer to, by name.
    pub(super) schemas: Schemas,
    /// Its problems, beside those of every route.
    pub(super) problems: &'static [ProblemCode],
    /// What answers it.
    pub(super) handler: Handler,
}

/// Which requests a route answers, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// GET and POST claim IDs; HEAD checks the request.
    Claim,
    /// GET answers 200, or 503 in the same form.
    Health,
    /// GET answers 200, never cached, or a problem.
    Liveness,
    /// GET answers 200.
    Read,
    /// GET answers 200, never cached; PUT and PATCH change what it answers.
    Settings,
    /// POST changes something.
    Action,
    /// GET answers 200, or 304 to whoever has the document. Pages of other sites may read it.
    Document,
    /// GET answers a page for people or what it loads, or 304. The API document leaves it out, and
    /// `http.console` turns it off.
    Page,
}

/// Where a route is served: everything is on the public listener unless `http.admin_listen` gives
/// operators one of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// The public listener.
    Public,
    /// Both listeners.
    Both,
    /// The operators' listener; the public one where there is no other.
    OperatorsFirst,
    /// The operators' listener; the public one where tokens tell who is an operator.
    Operators,
}

/// What answers the requests of a route.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handler {
    /// Claims one ID, or a batch.
    Claim { is_batch: bool },
    /// Answers without waiting.
    Ready(for<'a> fn(&Call<'a>) -> Result<Response<ResponseBody>, Problem>),
    /// Answers after waiting, for the store for example.
    Later(for<'a> fn(&'a Call<'a>) -> HandlerFuture<'a>),
    /// Answers the API document, which is made from the table of routes.
    ApiDocument,
    /// Answers a page or a file of the console.
    Console,
}

/// What a handler that waits returns.
pub(super) type HandlerFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Problem>> + Send + 'a>>;

/// A request that has passed every check, as a handler reads it.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) route: &'a Route,
    pub(super) state: &'a AppState,
    pub(super) head: &'a Parts,
    pub(super) caller: Caller,
    pub(super) peer: Peer,
    /// Whether it came by the operators' listener.
    pub(super) is_operator: bool,
    /// The path's parameter, decoded; none when it is not UTF-8.
    pub(super) parameter: Option<Cow<'a, str>>,
    /// The body, where the route reads one.
    pub(super) body: Bytes,
}

impl Route {
    /// A route that answers GET on the public listener, with a token; what else it needs is given
    /// beside this.
    pub(super) const fn new(path: &'static str, handler: Handler) -> Self {
        Self {
            path,
            operation: "",
            summary: "",
            description: "",
            kind: Kind::Read,
            listener: Listener::Public,
            needs_token: true,
            permission: None,
            is_for_clients: false,
            parameters: &[],
            body: None,
            content: &[],
            schemas: Map::new,
            problems: &[],
            handler,
        }
    }

    /// What stands before and after the parameter in its path, if that has one.
    pub(super) fn around_parameter(&self) -> Option<[&'static str; 2]> {
        let (prefix, rest) = self.path.split_once('{')?;
        let (_, suffix) = rest.split_once('}')?;
        Some([prefix, suffix])
    }

    /// The path's parameter as it stands in a path, which this stands around; empty for a route
    /// without one. None when the path is another route's.
    pub(super) fn parameter_in<'a>(
        &self,
        around: Option<[&str; 2]>,
        path: &'a str,
    ) -> Option<&'a str> {
        let Some([prefix, suffix]) = around else { return (path == self.path).then_some("") };
        let parameter = path.strip_prefix(prefix)?.strip_suffix(suffix)?;
        (!parameter.is_empty() && !parameter.contains('/')).then_some(parameter)
    }

    /// The methods that it answers, as the header `Allow` names them.
    pub(super) const fn allowed(&self) -> &'static str {
        match self.kind {
            Kind::Claim => "GET,HEAD,POST",
            Kind::Health | Kind::Liveness | Kind::Read | Kind::Document | Kind::Page => "GET,HEAD",
            Kind::Settings => "GET,HEAD,PUT,PATCH",
            Kind::Action => "POST",
        }
    }

    /// Whether it answers a method.
    pub(super) fn allows(&self, method: &Method) -> bool {
        let reads = self.kind != Kind::Action;
        match *method {
            Method::GET | Method::HEAD => reads,
            Method::POST => matches!(self.kind, Kind::Claim | Kind::Action),
            Method::PUT | Method::PATCH => self.kind == Kind::Settings,
            _ => false,
        }
    }
}

/// Schemas by name.
pub(super) type Schemas = fn() -> Map<String, Value>;

/// A media type, and the schema of what is written in it.
pub(super) type Content = (&'static str, fn() -> Value);

/// A response that is not JSON.
pub(super) const PLAIN_TEXT: Content = ("text/plain", || json!({ "type": "string" }));

/// The schema of a type, and those that it refers to, by name.
pub(super) fn schemas_of<T: ToSchema>() -> Map<String, Value> {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    schemas.into_iter().map(|(name, schema)| (name, json!(schema))).collect()
}

/// A reference to the schema of this name.
pub(super) fn schema_ref(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}
