//! `raindrop log`: shows the level of a running service's log, or changes it for a time.

use std::time::Duration;

use axum::http::{HeaderMap, Method};
use clap::builder::PossibleValuesParser;
use tokio::runtime::Builder;

use super::{
    arguments::duration,
    client::{Client, Remote},
    failure::Failure,
    output::{print_json, say},
    store::block_on,
};
use crate::{
    config::{LOG_LEVELS, format_duration},
    server::LevelDocument,
};

#[derive(Debug, clap::Args)]
pub(super) struct LogArguments {
    /// The level that the log gets for a time; without it, the command only shows the level.
    #[arg(long, requires = "duration", value_parser = PossibleValuesParser::new(LOG_LEVELS))]
    level: Option<String>,
    /// For how long, such as 10m; at most 24h. Then the configured level comes back by itself.
    #[arg(long = "for", id = "duration", requires = "level", value_name = "DURATION")]
    #[arg(value_parser = duration)]
    duration: Option<Duration>,
    /// Print JSON: the answer of GET /log.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(super) fn run(arguments: &LogArguments) -> Result<(), Failure> {
    let client = arguments
        .remote
        .client()?
        .ok_or_else(|| Failure::usage("log: needs --server, the service whose log it is about"))?;
    block_on(Builder::new_current_thread(), async {
        let document = ask(&client, arguments).await?;
        if arguments.json { print_json(&document) } else { say(&described(&document)) }
    })
}

async fn ask(client: &Client, arguments: &LogArguments) -> Result<LevelDocument, Failure> {
    let (Some(level), Some(duration)) = (&arguments.level, arguments.duration) else {
        return client.get("/log").await;
    };
    let path = format!("/log?level={level}&for={}", format_duration(duration));
    client.change(Method::PUT, &path, HeaderMap::new(), None::<&()>).await
}

fn described(LevelDocument { level, configured, until }: &LevelDocument) -> String {
    match until {
        Some(until) => format!("{level} until {until}, then {configured}"),
        None => level.clone(),
    }
}
