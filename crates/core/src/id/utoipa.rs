//! IDs in API documents, by utoipa.

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

use super::Id;

/// Describes the text that the feature `serde` writes. For a field with `as_number`, name another
/// type: `#[schema(value_type = i64)]`.
///
/// # Examples
///
/// ```
/// use raindrop_core::id::Id;
/// use utoipa::PartialSchema;
///
/// let schema = serde_json::to_value(Id::schema())?;
/// assert_eq!(schema["type"], "string");
/// assert_eq!(schema["pattern"], "^[0-9]{1,19}$");
/// # Ok::<(), serde_json::Error>(())
/// ```
impl PartialSchema for Id {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("An ID in decimal."))
            .pattern(Some("^[0-9]{1,19}$"))
            .examples(["249679838552547328"])
            .build()
            .into()
    }
}

impl ToSchema for Id {}
