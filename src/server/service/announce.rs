//! Logs what an operator should know when the service starts.

use std::net::SocketAddr;

use super::LEASE_EXPECTED_WITHIN;
use crate::{
    config::{Config, EqualTexts, Mode},
    core::instant::format_unix_ms_or_year,
    keeper::{Issuer, NamespaceIssuer, SegmentIssuer},
    plan::scarce_ids,
    store::{Store, StoreUrl},
};

/// The most codes that the line of a ready namespace lists.
const CODES_NAMED: usize = 10;

/// Logs notes and warnings about this configuration and store.
pub(super) fn warn(config: &Config, store: &dyn Store) {
    warn_of_assigned_workers(config);
    for note in &config.notes {
        tracing::info!("{note}");
    }
    for EqualTexts { namespace, codes, texts } in &config.equal_texts {
        tracing::warn!(namespace, %codes, %texts, "codes may issue equal texts");
    }
    for keeper in config.keepers() {
        if let Some(warning) = scarce_ids(keeper) {
            let namespace = &keeper.namespace;
            tracing::warn!(namespace, "{warning}");
        }
    }
    if !store.is_verified() {
        tracing::warn!(
            store = %config.store.url,
            "store not verified: whoever controls the network between can pose as it; \
             store.tls = \"verify\" prevents that (docs/security.md)"
        );
    }
}

/// Logs the premise under which each worker id that the configuration assigns is unique.
fn warn_of_assigned_workers(config: &Config) {
    for namespace in &config.namespaces {
        let Mode::Snowflake { keeper, premise } = &namespace.mode else { continue };
        let (namespace, worker) = (&namespace.name, keeper.min_worker);
        match premise {
            Some(premise) if config.store.url.is_memory() => tracing::warn!(
                namespace,
                worker,
                "the worker id is assigned and not leased: IDs are unique only while {premise}, \
                 and if no restart finds the clock behind"
            ),
            Some(_) => tracing::info!(
                namespace,
                worker,
                "the worker id is assigned: leasing exactly its row, waiting while another holds it"
            ),
            None => {}
        }
    }
}

/// Returns the address and the store, for the line that says that a namespace is ready.
pub(super) fn served_at(scheme: &str, address: SocketAddr, store_url: &StoreUrl) -> String {
    format!("{scheme}://{address} · store {}", describe_store(store_url))
}

/// Logs that a namespace is ready. If that takes long, first logs why it is not yet.
pub(super) async fn ready(issuer: NamespaceIssuer, served_at: String) {
    if tokio::time::timeout(LEASE_EXPECTED_WITHIN, issuer.ready()).await.is_err() {
        let reason = issuer.reason();
        let reason = reason.map_or_else(|| "no lease or block yet".into(), |it| it.to_string());
        tracing::warn!(namespace = issuer.namespace(), "not ready, retrying: {reason}");
        issuer.ready().await;
    }
    let described = match &issuer {
        NamespaceIssuer::Snowflake(issuer) => describe_lease(issuer),
        NamespaceIssuer::Segment(issuer) => Some(describe_segments(issuer)),
    };
    if let Some(described) = described {
        let namespace = issuer.namespace();
        tracing::info!(namespace, "serving IDs on {served_at} · {described}");
    }
}

fn describe_lease(issuer: &Issuer) -> Option<String> {
    let (lease, layout) = (issuer.status().lease?, issuer.layout());
    Some(format!(
        "worker {} · lane {} · {} · IDs valid until {}",
        lease.worker,
        lease.lane,
        layout.canonical(),
        format_unix_ms_or_year(layout.valid_until_ms()),
    ))
}

fn describe_segments(issuer: &SegmentIssuer) -> String {
    let codes = issuer.codes();
    let more = codes.len().saturating_sub(CODES_NAMED);
    let mut codes: Vec<String> = codes.take(CODES_NAMED).map(str::to_owned).collect();
    if more > 0 {
        codes.push(format!("and {more} more"));
    }
    codes.extend(issuer.series());
    if issuer.makes_codes() {
        codes.push("others on demand".into());
    }
    if codes.is_empty() {
        codes.push("none configured".into());
    }
    format!("mode segment · codes {}", codes.join(", "))
}

/// Returns the store's URL without secrets, and the scope within which IDs are unique.
fn describe_store(url: &StoreUrl) -> String {
    let scope = if url.is_memory() {
        " (unique only if no other process uses this worker id)"
    } else if url.sqlite_file().is_some() {
        " (unique within this file)"
    } else {
        ""
    };
    format!("{url}{scope}")
}
