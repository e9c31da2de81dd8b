//! Each parameter, as the handlers read it.

use serde_json::Value;
use utoipa::openapi::{
    KnownFormat, ObjectBuilder, Required, SchemaFormat, Type,
    path::{Parameter, ParameterBuilder, ParameterIn},
};

use crate::{
    core::{
        code::CODE_PATTERN,
        encoding::Encoding,
        namespace::{DEFAULT_NAMESPACE, NAMESPACE_PATTERN},
        preset::NamedLayout,
    },
    server::route::{Route, text_schema},
};

/// What the parameters of a service depend on.
#[derive(Debug)]
pub(super) struct Parameters {
    pub(super) max_batch: u32,
}

impl Parameters {
    pub(super) fn in_path(&self, name: &str) -> Parameter {
        let (description, schema) = match name {
            "code" => (
                "The caller's name for a sequence.",
                text_schema().pattern(Some(whole(CODE_PATTERN))).max_length(Some(64)).build(),
            ),
            "id" => (
                "An ID in its encoding, with the prefix of its code if that has one.",
                text_schema().pattern(Some("^[A-Za-z0-9._:=-]+$")).build(),
            ),
            other => unreachable!("no path has {other}"),
        };
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(description))
            .example(Some(if name == "id" { "249679838552547328" } else { "order" }.into()))
            .schema(Some(schema))
            .build()
    }

    /// A query parameter of this route.
    pub(super) fn in_query(&self, name: &str, route: &Route) -> Parameter {
        let (description, schema): (_, ObjectBuilder) = match name {
            "n" => (
                "How many IDs, at most `http.max_batch`.",
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .minimum(Some(1))
                    .maximum(Some(self.max_batch))
                    .default(Some(1.into())),
            ),
            "format" => (
                "JSON strings or numbers, or ranges of IDs. A number is never rounded: above \
                 2^53 - 1 the answer is 422 `unsafe_number`. Number and range go with neither \
                 `encoding`, `padded` nor a code with a prefix, range not with `text/plain`.",
                one_of(route.formats.iter().copied()).default(Some("string".into())),
            ),
            "encoding" => (
                "How IDs are written. `friendly` needs a layout whose time does not wrap.",
                one_of(Encoding::ALL.into_iter().map(Encoding::name))
                    .default(Some(Encoding::default().name().into())),
            ),
            "padded" => (
                "Texts of equal length that sort as their IDs: with decimal, hex, base32 and \
                 base36 alone.",
                ObjectBuilder::new().schema_type(Type::Boolean).default(Some(false.into())),
            ),
            "namespace" => (
                "Whose IDs. A code or prefix that is bound to a namespace needs none, and refuses \
                 another.",
                text_schema()
                    .pattern(Some(whole(NAMESPACE_PATTERN)))
                    .default(Some(DEFAULT_NAMESPACE.into())),
            ),
            "layout" => (
                "A preset or another system's layout to read the ID by, instead of a namespace's.",
                one_of(NamedLayout::names()),
            ),
            "at" => (
                "A past instant that the IDs are for: from the namespace's first start on, or from \
                 where its `layout.backfill_from` opens the past.",
                instant(),
            ),
            "from" => ("Where the span begins.", instant()),
            "to" => ("Where the span ends; not before `from`.", instant()),
            other => unreachable!("no handler reads {other}"),
        };
        let is_required = matches!(name, "from" | "to");
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Query)
            .required(if is_required { Required::True } else { Required::False })
            .description(Some(description))
            .schema(Some(schema.build()))
            .build()
    }
}

/// A pattern of the whole text.
fn whole(pattern: &str) -> String {
    format!("^{pattern}$")
}

fn one_of(names: impl Iterator<Item = &'static str>) -> ObjectBuilder {
    text_schema().enum_values(Some(names))
}

fn instant() -> ObjectBuilder {
    text_schema()
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples([Value::from("2026-11-20T00:00:00Z")])
}
