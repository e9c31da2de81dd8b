//! Tests segment mode on real processes.

mod command;
mod crowd;
mod import;
mod keyed;
mod many;
mod series;
mod single;
mod strict;

use reqwest::{Client, StatusCode, header};
use serde_json::Value;

use crate::service::{PATIENCE, Setup};

/// Settings of a default namespace in segment mode with this many codes.
fn counting(url: &str, codes: usize) -> Setup {
    let codes: Vec<String> = (0..codes).map(code).collect();
    Setup::new()
        .set("mode", "segment")
        .set("codes.allow", codes.join(","))
        .set("store.url", url)
        .set("store.timeout", "1s")
}

fn code(index: usize) -> String {
    format!("code-{index}")
}

/// Returns the status, the body, and whether the answer has `Retry-After`.
async fn answer(client: &Client, url: &str) -> reqwest::Result<(StatusCode, Value, bool)> {
    let answer = client.get(url).send().await?;
    let (status, may_retry) = (answer.status(), answer.headers().contains_key(header::RETRY_AFTER));
    Ok((status, answer.json().await?, may_retry))
}
