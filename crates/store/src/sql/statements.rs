//! The statements' texts, for one engine and its tables' names.

use super::engine::Dialect;
use crate::{Failover, StoreSettings};

pub(super) const WORKER_COLUMNS: &[&str] = &[
    "namespace",
    "reserved_key",
    "worker_id",
    "holder",
    "token",
    "epoch",
    "lane",
    "marks",
    "heartbeat_at",
    "expires_at",
    "created_at",
    "updated_at",
];
pub(super) const LAYOUT_COLUMNS: &[&str] = &[
    "namespace",
    "token",
    "words",
    "complete",
    "since_tick",
    "first_tick",
    "identity",
    "epoch",
    "history",
    "created_at",
];
pub(super) const SEGMENT_COLUMNS: &[&str] =
    &["namespace", "code", "next_number", "step", "token", "epoch", "created_at", "updated_at"];
pub(super) const SETTINGS_COLUMNS: &[&str] =
    &["namespace", "code", "settings", "token", "created_at", "updated_at"];

/// Fills the engine's expressions and the tables' names into statements.
#[derive(Debug)]
pub(super) struct Statements {
    /// Placeholders with what stands for them; a text may have later placeholders in it.
    placeholders: Vec<(&'static str, String)>,
    numbered: bool,
}

impl Statements {
    pub(super) fn new(dialect: &Dialect, settings: &StoreSettings) -> Self {
        let StoreSettings { worker_table, segment_table, .. } = settings;
        let quoted = |name: &str| format!("{0}{name}{0}", dialect.quote);
        let unix_ms = |time: &str| dialect.unix_ms.replace("{}", time);
        let raised = |number: &str| dialect.raised.replace("{}", number);
        // An empty identity is that of a record whose server is not known.
        let (server, continues, is_server) = match settings.failover {
            Failover::Auto => (
                dialect.server,
                "(identity = '' OR identity = {server})",
                "(? = '' OR ? = {server})",
            ),
            Failover::Lossless => ("''", "1 = 1", "? = ?"),
        };
        let placeholders = vec![
            (
                "{row}",
                "worker_id, token, epoch, holder, lane, marks, expires_at <= {now}, \
                 {heartbeat_ms}, {expires_ms}"
                    .to_owned(),
            ),
            (
                "{in_scope}",
                "namespace = ? AND reserved_key = ? AND worker_id BETWEEN ? AND ?".to_owned(),
            ),
            (
                "{record}",
                "token, words, complete, since_tick, first_tick, identity, epoch, history"
                    .to_owned(),
            ),
            // Whether the namespace's record has an epoch, and this server continues its history.
            (
                "{in_epoch}",
                "EXISTS (SELECT 1 FROM {layout} WHERE namespace = ? AND epoch = ? AND {continues})"
                    .to_owned(),
            ),
            ("{continues}", continues.to_owned()),
            ("{is_server}", is_server.to_owned()),
            ("{server}", server.to_owned()),
            ("{heartbeat_ms}", unix_ms("heartbeat_at")),
            ("{expires_ms}", unix_ms("expires_at")),
            ("{next_expiry_ms}", unix_ms("MIN(CASE WHEN expires_at > {now} THEN expires_at END)")),
            ("{updated_ms}", unix_ms("updated_at")),
            ("{created_ms}", unix_ms("created_at")),
            ("{now_ms}", unix_ms("{now}")),
            ("{exact_holder}", dialect.exact.replace("{}", "holder")),
            ("{raised_by}", raised("next_number + ?")),
            ("{raised_to}", raised("{first}")),
            ("{or_raise}", dialect.or_raise.to_owned()),
            ("{or_keep}", dialect.or_keep.to_owned()),
            ("{returning}", dialect.returning.to_owned()),
            ("{for_share}", dialect.for_share.to_owned()),
            ("{worker}", quoted(worker_table)),
            ("{layout}", quoted(&format!("{worker_table}_layout"))),
            ("{segment}", quoted(segment_table)),
            ("{settings}", quoted(&format!("{segment_table}_settings"))),
            ("{clock}", dialect.clock.to_owned()),
            ("{now_plus}", dialect.now_plus.to_owned()),
            ("{now}", dialect.now.to_owned()),
            ("{never}", dialect.epoch.to_owned()),
        ];
        Self { placeholders, numbered: dialect.numbered }
    }

    /// A statement as the engine takes it.
    pub(super) fn fill(&self, statement: &str) -> String {
        let fill = |sql: String, (name, text): &(&str, String)| sql.replace(name, text);
        let sql = self.placeholders.iter().fold(statement.to_owned(), fill);
        if !self.numbered {
            return sql;
        }
        // The statements have no other question marks.
        let mut parts = sql.split('?');
        let first = parts.next().unwrap_or_default().to_owned();
        (1..).zip(parts).fold(first, |sql, (number, part)| format!("{sql}${number}{part}"))
    }
}
