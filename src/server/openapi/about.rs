//! What an endpoint says of itself, beside its handler.

use utoipa::{
    ToSchema,
    openapi::{ComponentsBuilder, ObjectBuilder, Ref, RefOr, Schema, Type},
};

/// What the document says of a route. Its parameters and problems are described once for all
/// routes.
#[derive(Debug)]
pub(in crate::server) struct About {
    /// Names its operations: `get_<name>`.
    pub(in crate::server) name: &'static str,
    /// In a few words.
    pub(in crate::server) summary: &'static str,
    /// In as many as are needed.
    pub(in crate::server) description: &'static str,
    /// The query parameters that its handler reads.
    pub(in crate::server) parameters: &'static [&'static str],
    /// What the parameter `format` may be.
    pub(in crate::server) formats: &'static [&'static str],
    /// Its answers by media type.
    pub(in crate::server) answers: &'static [Written],
    /// Adds the schemas of its answers.
    pub(in crate::server) schemas: fn(ComponentsBuilder) -> ComponentsBuilder,
    /// What it has in common with others.
    pub(in crate::server) kind: Kind,
}

/// A media type, and the schema of what is written in it.
pub(in crate::server) type Written = (&'static str, fn() -> RefOr<Schema>);

/// An answer that is not JSON.
pub(in crate::server) const PLAIN_TEXT: Written = ("text/plain", || text().into());

/// What all routes of a kind have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Kind {
    /// GET and POST claim IDs, HEAD checks the request.
    Issues,
    /// Answers 200, or 503 in the same form.
    Judges,
    /// Answers 200, and no cache keeps that; or a problem.
    Lives,
    /// Answers 200.
    Tells,
}

impl Kind {
    /// Whether its answers are `Cache-Control: no-store`.
    pub(super) fn is_fresh(self) -> bool {
        self != Self::Tells
    }
}

/// Adds the schema of this type, and those that it refers to.
pub(in crate::server) fn with<T: ToSchema>(components: ComponentsBuilder) -> ComponentsBuilder {
    let mut schemas = Vec::new();
    T::schemas(&mut schemas);
    components.schemas_from_iter(schemas).schema_from::<T>()
}

/// The schema of this type, among those that were added.
pub(in crate::server) fn shared<T: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(T::name()).into()
}

/// The schema of a text.
pub(super) fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}
