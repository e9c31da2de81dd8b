//! The statements, for one engine and one table name.

use super::engine::Dialect;

/// Ready texts; the arguments' order is that of the question marks.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) layout_of: String,
    pub(super) insert_layout: String,
    pub(super) swap_layout: String,
    pub(super) count_rows: String,
    pub(super) insert_rows: String,
    pub(super) inserted_row: &'static str,
    pub(super) if_recorded: String,
    pub(super) survey: String,
    pub(super) free_rows: String,
    pub(super) free_row_of: String,
    pub(super) row: String,
    pub(super) swap: String,
    pub(super) list: String,
}

pub(super) const WORKER_COLUMNS: &[&str] = &[
    "namespace",
    "reserved_key",
    "worker_id",
    "holder",
    "token",
    "lane",
    "marks",
    "heartbeat_at",
    "expires_at",
    "created_at",
    "updated_at",
];
pub(super) const LAYOUT_COLUMNS: &[&str] =
    &["namespace", "words", "complete", "since_tick", "created_at", "token", "first_tick"];

/// Namespace, reserved key, smallest and largest worker id.
const SCOPE: &str = "namespace = ? AND reserved_key = ? AND worker_id BETWEEN ? AND ?";

impl Statements {
    pub(super) fn new(dialect: &Dialect, worker_table: &str) -> Self {
        let Dialect { quote, clock, now, now_plus, epoch, or_keep, .. } = dialect;
        let worker = format!("{quote}{worker_table}{quote}");
        let layout = format!("{quote}{worker_table}_layout{quote}");
        let unix_ms = |time: &str| dialect.unix_ms.replace("{}", time);
        let is_holder = dialect.exact.replace("{}", "holder");
        let row = format!(
            "worker_id, token, holder, lane, marks, expires_at <= {now}, {}, {}",
            unix_ms("heartbeat_at"),
            unix_ms("expires_at"),
        );
        Self {
            layout_of: format!(
                "SELECT token, words, complete, since_tick, first_tick FROM {layout} \
                 WHERE namespace = ?"
            ),
            insert_layout: format!(
                "{clock}INSERT INTO {layout} (token, words, complete, since_tick, first_tick, \
                 namespace, created_at) VALUES (?, ?, ?, ?, ?, ?, {now}) {or_keep}"
            ),
            swap_layout: format!(
                "UPDATE {layout} SET token = ?, words = ?, complete = ?, since_tick = ?, \
                 first_tick = ? WHERE namespace = ? AND token = ?"
            ),
            count_rows: format!("SELECT COUNT(*) FROM {worker} WHERE {SCOPE}"),
            // The names of the new values must not be those of columns.
            insert_rows: format!(
                "{clock}INSERT INTO {worker} \
                 (namespace, reserved_key, worker_id, marks, token, created_at, updated_at) \
                 SELECT a, b, c, d, e, {now}, {now} FROM ("
            ),
            inserted_row: "SELECT ? AS a, ? AS b, ? AS c, ? AS d, ? AS e",
            if_recorded: format!(
                ") AS new_rows WHERE EXISTS \
                 (SELECT 1 FROM {layout} WHERE namespace = ? AND token = ?{}) \
                 AND {} <= ? {or_keep}",
                dialect.for_share,
                unix_ms(now),
            ),
            survey: format!(
                "{clock}SELECT {}, (SELECT words FROM {layout} WHERE namespace = ?), \
                 COUNT(CASE WHEN expires_at > {now} THEN 1 END), \
                 COUNT(CASE WHEN expires_at <= {now} THEN 1 END), {} \
                 FROM {worker} WHERE {SCOPE}",
                unix_ms(now),
                unix_ms(&format!("MIN(CASE WHEN expires_at > {now} THEN expires_at END)")),
            ),
            free_rows: format!(
                "{clock}SELECT {row} FROM {worker} WHERE {SCOPE} AND expires_at <= {now} \
                 ORDER BY heartbeat_at, worker_id LIMIT ?"
            ),
            free_row_of: format!(
                "{clock}SELECT {row} FROM {worker} WHERE {SCOPE} AND expires_at <= {now} \
                 AND {is_holder} = ? ORDER BY heartbeat_at DESC, worker_id DESC LIMIT 1"
            ),
            row: format!(
                "{clock}SELECT {row} FROM {worker} \
                 WHERE namespace = ? AND reserved_key = ? AND worker_id = ?"
            ),
            swap: format!(
                "{clock}UPDATE {worker} SET token = ?, holder = ?, lane = ?, marks = ?, \
                 heartbeat_at = {now}, expires_at = COALESCE({now_plus}, {epoch}), \
                 updated_at = {now} \
                 WHERE namespace = ? AND reserved_key = ? AND worker_id = ? AND token = ?"
            ),
            list: format!(
                "{clock}SELECT namespace, reserved_key, {row} FROM {worker} \
                 ORDER BY namespace, reserved_key, worker_id"
            ),
        }
    }
}
