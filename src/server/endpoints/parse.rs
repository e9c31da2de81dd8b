//! `/parse/{id}`: the fields of an ID.

use std::sync::Arc;

use axum::{
    extract::{Path, State, rejection::PathRejection},
    http::{Uri, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::{
    core::{id::Id, instant::format_unix_ms, layout::Layout, preset::Preset},
    server::{
        params::{Params, invalid},
        problem::{Problem, ProblemCode},
        state::{AppState, DEFAULT_NAMESPACE},
    },
};

/// The fields of an ID.
#[derive(Clone, Debug, Serialize)]
pub struct ParsedId {
    id: String,
    hex: String,
    timestamp: String,
    unix_ms: i64,
    tick: u64,
    data_center: u64,
    worker_id: u64,
    lane: u64,
    sequence: u64,
    reserved: u64,
    js_safe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<&'static str>,
}

impl ParsedId {
    /// Takes an ID of a namespace apart.
    pub fn of_namespace(id: Id, layout: &Layout, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..Self::new(id, layout) }
    }

    /// Takes an ID apart by a preset.
    pub fn of_preset(id: Id, preset: Preset) -> Self {
        let layout = preset.spec().build().expect("presets are valid");
        Self { layout: Some(preset.name()), ..Self::new(id, &layout) }
    }

    fn new(id: Id, layout: &Layout) -> Self {
        let fields = layout.decompose(id);
        let unix_ms = layout.start_of_tick_ms(fields.tick);
        Self {
            id: id.to_string(),
            hex: format!("{:016x}", id.get()),
            timestamp: format_unix_ms(unix_ms),
            unix_ms,
            tick: fields.tick,
            data_center: fields.data_center,
            worker_id: fields.worker,
            lane: fields.lane,
            sequence: fields.sequence,
            reserved: fields.reserved,
            js_safe: id.is_js_safe(),
            namespace: None,
            layout: None,
        }
    }
}

/// Answers the fields of an ID.
pub(in crate::server) async fn parse_id(
    State(state): State<Arc<AppState>>,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, Problem> {
    let params = Params::read(&uri, &["namespace", "layout"])?;
    let preset = params.get("layout").map(read_preset).transpose()?;
    let asked = params.get("namespace");
    if preset.is_some() && asked.is_some() {
        return Err(invalid("parameters namespace and layout exclude each other"));
    }
    let Path(id) = id.map_err(|_| Problem::new(ProblemCode::InvalidId, "the ID must be UTF-8"))?;
    let (namespace, id) = match state.codes.by_prefix(&id) {
        Some((code, rest)) => (code.namespace_for(asked)?, rest),
        None => (asked.unwrap_or(DEFAULT_NAMESPACE), id.as_str()),
    };
    let issuer = state.issuer(namespace)?;
    let id: Id = id.parse()?;
    let parsed = match preset {
        Some(preset) => ParsedId::of_preset(id, preset),
        None => ParsedId::of_namespace(id, issuer.layout(), issuer.namespace()),
    };
    let body = serde_json::to_string(&parsed).expect("texts and numbers are always JSON");
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

fn read_preset(name: &str) -> Result<Preset, Problem> {
    Preset::by_name(name).ok_or_else(|| {
        let names = Preset::ALL.map(Preset::name).join(" or ");
        invalid(format!("layout = {name:?}: must be {names}"))
    })
}
