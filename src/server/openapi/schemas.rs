//! Schemas of the parameters that several routes have.

use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{
        Object, ObjectBuilder, RefOr, Required, Schema, Type,
        path::{Parameter, ParameterBuilder, ParameterIn},
        schema::{KnownFormat, SchemaFormat},
    },
};

use crate::{
    config::Key,
    core::{
        code::CODE_PATTERN,
        encoding::Encoding,
        layout::{FieldOrder, TimeUnit},
        namespace::{DEFAULT_NAMESPACE, NAMESPACE_PATTERN},
        preset::{NamedLayout, Preset},
    },
    plan::{PLAN_KEYS, PlanKey},
};

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn one_of(names: impl IntoIterator<Item = &'static str>) -> ObjectBuilder {
    text().enum_values(Some(names))
}

/// Returns a text that must match this pattern as a whole.
fn pattern(pattern: &str) -> ObjectBuilder {
    text().pattern(Some(format!("^{pattern}$")))
}

/// Types that exist for the document only; each is the schema of a parameter.
macro_rules! schemas {
    ($($name:ident: $schema:expr;)*) => {
        $(
            pub(in crate::server) struct $name;

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    $schema.build().into()
                }
            }

            impl ToSchema for $name {}
        )*
    };
}

schemas! {
    Code: pattern(CODE_PATTERN).max_length(Some(64)).examples(["order"]);
    IdText: pattern("[A-Za-z0-9._:/=-]+").examples(["249679838552547328"]);
    // No default: some generated clients would send it, and the code may belong to another
    // namespace.
    Namespace: pattern(NAMESPACE_PATTERN).examples([DEFAULT_NAMESPACE]);
    OneEncoding: one_of(Encoding::ALL.map(Encoding::name))
        .default(Some(Encoding::default().name().into()));
    // No default: the code may have its own.
    EncodingOfCode: one_of(Encoding::ALL.map(Encoding::name));
    OneFormat: one_of(["string"]).default(Some("string".into()));
    ManyFormat: one_of(["string", "range"]).default(Some("string".into()));
    LayoutText: text().examples(
        NamedLayout::names().chain(["time:39@10ms,sequence:8,worker:16"])
    );
    Instant: instant();
}

fn instant() -> ObjectBuilder {
    let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
    text().format(Some(format)).examples(["2026-11-20T00:00:00Z"])
}

/// The settings of a layout as query parameters, each described by the help text of its key.
pub(in crate::server) struct PlanParameters;

impl IntoParams for PlanParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let parameter = |PlanKey { parameter, key, .. }: PlanKey| {
            ParameterBuilder::new()
                .name(parameter)
                .parameter_in(ParameterIn::Query)
                .required(Required::False)
                .description(Key::by_name(key).map(|key| key.help))
                .schema(Some(setting(parameter)))
                .build()
        };
        PLAN_KEYS.into_iter().map(parameter).collect()
    }
}

fn setting(parameter: &str) -> Object {
    let most: u64 = match parameter {
        "preset" => return one_of(Preset::ALL.map(Preset::name)).build(),
        "time_unit" => {
            let numbers = ["1", "2", "3", "4", "5"];
            return one_of(TimeUnit::ALL.map(TimeUnit::name).into_iter().chain(numbers)).build();
        }
        "order" => return one_of(FieldOrder::ALL.map(FieldOrder::name)).build(),
        "epoch" => return instant().build(),
        "timestamp_bits" => 55,
        "data_center_bits" => 10,
        "worker_bits" => 16,
        "data_center" => 1023,
        "rollback_bits" => 3,
        "rollback_initial" => 7,
        "reserved_bits" => 5,
        "reserved_value" => 31,
        _ => (1 << 62) - 1,
    };
    let number = ObjectBuilder::new().schema_type(Type::Integer);
    number.minimum(Some(0)).maximum(Some(most)).build()
}
