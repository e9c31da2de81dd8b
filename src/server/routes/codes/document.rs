//! The JSON of a code in responses.

use serde::Serialize;
use utoipa::ToSchema;

use super::settings::ShownSettings;
use crate::{
    core::{instant::format_unix_ms, namespace::DEFAULT_NAMESPACE},
    keeper::{CodeView, SegmentIssuer},
};

/// Codes, by namespace and name.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Codes)]
pub(super) struct CodeList {
    pub(super) codes: Vec<CodeDocument>,
    /// Whether there are more; the next request gives the last one as `after`.
    pub(super) has_more: bool,
}

/// A code of segment mode. Texts are whole numbers that may be beyond 2^53.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Code)]
pub(crate) struct CodeDocument {
    namespace: String,
    pub(super) code: String,
    /// `configured` (in the configuration, and changed there), `managed`, `automatic` (created on
    /// demand), `retired` or `unserved` (in the store, and unknown to this service).
    kind: &'static str,
    /// The path at which clients claim numbers of this code.
    #[schema(example = "/id/order?namespace=numbers")]
    path: String,
    /// The first number of the next block.
    #[schema(example = "1001")]
    next: String,
    /// The text of that number, if the code has a form of texts and numbers are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "INV-001001")]
    next_text: Option<String>,
    /// How many numbers can still be reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    left: Option<String>,
    /// How many numbers this node has reserved and not issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = true, nullable = false)]
    in_hand: Option<u64>,
    /// How many numbers the last reservation took; 0 before the first.
    step: u64,
    /// The time of the last reservation.
    reserved_at: Option<String>,
    created_at: String,
    #[serde(flatten)]
    #[schema(inline, value_type = ShownSettings)]
    settings: Option<ShownSettings>,
}

impl CodeDocument {
    /// Returns the key by which lists are ordered.
    pub(super) fn sort_key(&self) -> (&str, &str) {
        (&self.code, &self.namespace)
    }

    /// Describes a code, with the numbers that this node's issuer has reserved and not issued.
    pub(super) fn of(view: CodeView, issuer: &SegmentIssuer) -> Self {
        let in_hand = issuer.in_hand(&view.listed.code);
        Self { in_hand: Some(in_hand), ..Self::stored(view) }
    }

    /// Describes a code as the store has it.
    pub(crate) fn stored(view: CodeView) -> Self {
        let next_text = view.next_text();
        let left = view.left().map(|left| left.to_string());
        let CodeView { listed, kind, spec } = view;
        let (code, namespace) = (&listed.code, &listed.namespace);
        let path = match namespace.as_str() {
            DEFAULT_NAMESPACE => format!("/id/{code}"),
            namespace => format!("/id/{code}?namespace={namespace}"),
        };
        Self {
            path,
            in_hand: None,
            namespace: listed.namespace,
            code: listed.code,
            kind: kind.name(),
            next: listed.next.to_string(),
            next_text,
            left,
            step: listed.step,
            reserved_at: (listed.step > 0).then(|| format_unix_ms(listed.updated_ms)),
            created_at: format_unix_ms(listed.created_ms),
            settings: spec.map(ShownSettings::from),
        }
    }
}
