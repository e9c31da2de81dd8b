-- The statements of Raindrop on MySQL and MariaDB.
--
-- {worker} and {segment} stand for the names of the tables, {table} for that of another table. The
-- arguments of each statement are listed above it.
--
-- Every write compares the server session for which it was prepared: the session's mark (a UUID)
-- and number, the server, whether that is read-only, and how it flushes. So a statement that a
-- proxy passes to another session or server writes nothing, nor does one after these settings have
-- changed. Every write of a row also compares the epoch in the namespace's record, and the record's
-- identity with that of the server.
--
-- A time that is no date, such as 0000-00-00, which MariaDB allows, is read as the first year of
-- the calendar. The next write of such a row repairs it. A heartbeat before 1970 is no evidence
-- that the server was rolled back.

-- For update, although it reads no row: a proxy that divides reads from writes sends it to the
-- server of the writes.
-- name: session
SELECT CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                 @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                 @@GLOBAL.sync_binlog)
FOR UPDATE;

-- The facts that a session needs about its server. One statement, so that one server reports them
-- all.
-- name: facts
SELECT 'session' AS name,
       CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                 @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                 @@GLOBAL.sync_binlog) AS value
UNION ALL
SELECT LOWER(variable_name), variable_value
FROM /*!80000 performance_schema.session_variables */ /*M! information_schema.session_variables */
WHERE variable_name IN ('binlog_format', 'innodb_flush_log_at_trx_commit', 'innodb_read_only',
                        'group_replication_group_name', 'log_bin', 'read_only', 'server_id',
                        'server_uuid', 'skip_replication', 'sql_log_bin', 'sync_binlog', 'wsrep_on')
UNION ALL
SELECT LOWER(variable_name), variable_value
FROM /*!80000 performance_schema.global_status */ /*M! information_schema.global_status */
WHERE variable_name IN ('group_replication_primary_member', 'slaves_running',
                        'wsrep_cluster_state_uuid')
UNION ALL
SELECT 'started', UNIX_TIMESTAMP() - variable_value
FROM /*!80000 performance_schema.global_status */ /*M! information_schema.global_status */
WHERE variable_name = 'uptime'
UNION ALL
SELECT 'set_while_running', variable_name
FROM /*!80000 performance_schema.variables_info WHERE variable_source = 'DYNAMIC' */
     /*M! information_schema.system_variables WHERE global_value_origin = 'SQL' */
  AND variable_name IN ('innodb_flush_log_at_trx_commit', 'sync_binlog');

-- The other servers whose changes a MySQL server applies. MariaDB tells it as slaves_running.
-- name: sources
SELECT CONCAT(host, ':', port)
FROM performance_schema.replication_applier_status
JOIN performance_schema.replication_connection_configuration USING (channel_name)
WHERE service_state = 'ON'
  AND channel_name NOT IN ('group_replication_applier', 'group_replication_recovery');

-- Settings without which acknowledged writes may be lost, with their values and those that keep
-- them.
-- name: durability
SELECT 'innodb_flush_log_at_trx_commit', CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS CHAR), '1'
UNION ALL
SELECT 'sync_binlog', CAST(@@GLOBAL.sync_binlog AS CHAR), '1'
FROM DUAL
WHERE @@GLOBAL.log_bin <> 0;

-- table
-- name: list_columns
SELECT column_name
FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = ?;

-- name: list_migrations
SELECT version FROM `{table}` WHERE success = TRUE;

-- name: forget_unfinished_migrations
DELETE FROM `{table}` WHERE success = FALSE;

-- table of migrations, seconds to wait
-- name: lock_migrations
SELECT GET_LOCK(CONCAT('raindrop ', CRC32(CONCAT(DATABASE(), ' ', ?))), ?);

-- token, words, complete, since tick, first tick, identity, epoch, history, namespace, session
-- name: create_record
INSERT INTO `{worker}_layout` (token, words, complete, since_tick, first_tick, identity, epoch,
                               history, namespace, created_at)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6)
FROM DUAL
WHERE CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?
ON DUPLICATE KEY UPDATE `{worker}_layout`.namespace = `{worker}_layout`.namespace;

-- namespace
-- name: read_record
SELECT token, words, complete, since_tick, first_tick, identity, epoch, history
FROM `{worker}_layout`
WHERE namespace = ?;

-- token, words, complete, since tick, first tick, identity, epoch, history, namespace,
-- expected token, identity in the record, identity of the session, twice, session
-- name: swap_record
UPDATE `{worker}_layout`
SET token = ?, words = ?, complete = ?, since_tick = ?, first_tick = ?, identity = ?, epoch = ?,
    history = ?
WHERE namespace = ? AND token = ?
  AND (CAST(? AS BINARY) IN ('', ?) OR ? = '')
  AND CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?;

-- namespace, reserved key, smallest worker, largest worker
-- name: count_rows
SELECT COUNT(*)
FROM `{worker}`
WHERE namespace = ? AND reserved_key = ? AND worker_id BETWEEN ? AND ?;

-- namespace, reserved key, marks, workers with tokens as JSON, namespace, token of the record,
-- identity, identity, until when in Unix ms, session
-- name: create_rows
INSERT INTO `{worker}` (namespace, reserved_key, marks, worker_id, token, created_at, updated_at)
SELECT ?, ?, ?, new_worker, new_token, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
FROM JSON_TABLE(?, '$[*]' COLUMNS (new_worker BIGINT PATH '$[0]',
                                   new_token CHAR(32) CHARACTER SET utf8mb4 PATH '$[1]')) AS new_rows
-- At REPEATABLE READ a select that feeds an insert locks what it reads.
WHERE EXISTS (SELECT 1 FROM `{worker}_layout`
              WHERE namespace = ? AND token = ? AND (identity IN ('', ?) OR ? = ''))
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 <= ?
  AND CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?
-- INSERT IGNORE would also hide values that do not fit.
ON DUPLICATE KEY UPDATE `{worker}`.namespace = `{worker}`.namespace;

-- namespace, reserved key, smallest worker, largest worker, namespace
-- name: survey
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 AS now_ms,
       CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                 @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                 @@GLOBAL.sync_binlog) AS session,
       held_rows, free_rows, next_expiry_ms,
       token, words, complete, since_tick, first_tick, identity, epoch, history
FROM (SELECT COUNT(CASE WHEN expires_at > UTC_TIMESTAMP(6) THEN 1 END) AS held_rows,
             COUNT(CASE WHEN expires_at <= UTC_TIMESTAMP(6) THEN 1 END) AS free_rows,
             TIMESTAMPDIFF(MICROSECOND, '1970-01-01',
                           MIN(CASE WHEN expires_at > UTC_TIMESTAMP(6) THEN expires_at END)) DIV 1000
               AS next_expiry_ms
      FROM `{worker}`
      WHERE namespace = ? AND reserved_key = ? AND worker_id BETWEEN ? AND ?) AS counted
LEFT JOIN `{worker}_layout` ON namespace = ?;

-- Without any row, one of nulls tells the session.
-- namespace, at most
-- name: unreleased_rows
SELECT CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                 @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                 @@GLOBAL.sync_binlog) AS session,
       reserved_key, worker_id, heartbeat_ms
FROM (SELECT 1 AS one) AS one
LEFT JOIN (SELECT reserved_key, worker_id,
                  COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at) DIV 1000,
                           -62135596800000) AS heartbeat_ms
           FROM `{worker}`
           WHERE namespace = ? AND expires_at <> TIMESTAMP'1970-01-01 00:00:00'
           ORDER BY heartbeat_ms DESC, worker_id, reserved_key
           LIMIT ?) AS unreleased ON TRUE
ORDER BY heartbeat_ms DESC, worker_id, reserved_key;

-- namespace, reserved key, smallest worker, largest worker, at most
-- name: free_rows
SELECT worker_id, token, epoch, holder, lane, marks, expires_at <= UTC_TIMESTAMP(6),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at) DIV 1000,
                -62135596800000),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at) DIV 1000,
                -62135596800000)
FROM `{worker}`
WHERE namespace = ? AND reserved_key = ? AND worker_id BETWEEN ? AND ?
  AND expires_at <= UTC_TIMESTAMP(6)
ORDER BY heartbeat_at, worker_id
LIMIT ?;

-- namespace, reserved key, smallest worker, largest worker, holder, at most
-- name: free_rows_of_holder
SELECT worker_id, token, epoch, holder, lane, marks, expires_at <= UTC_TIMESTAMP(6),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at) DIV 1000,
                -62135596800000),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at) DIV 1000,
                -62135596800000)
FROM `{worker}`
WHERE namespace = ? AND reserved_key = ? AND worker_id BETWEEN ? AND ?
  AND expires_at <= UTC_TIMESTAMP(6)
  -- Most collations ignore trailing blanks.
  AND CAST(holder AS BINARY) = ?
ORDER BY heartbeat_at DESC, worker_id DESC
LIMIT ?;

-- namespace, reserved key, worker
-- name: read_row
SELECT worker_id, token, epoch, holder, lane, marks, expires_at <= UTC_TIMESTAMP(6),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at) DIV 1000,
                -62135596800000),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at) DIV 1000,
                -62135596800000)
FROM `{worker}`
WHERE namespace = ? AND reserved_key = ? AND worker_id = ?;

-- token, epoch, holder, lane, marks, time to live in ms (null: released), namespace, reserved key,
-- worker, expected token, namespace, epoch, identity, identity, session
-- name: swap_row
UPDATE `{worker}`
SET token = ?, epoch = ?, holder = ?, lane = ?, marks = ?,
    heartbeat_at = UTC_TIMESTAMP(6),
    expires_at = COALESCE(UTC_TIMESTAMP(6) + INTERVAL (? * 1000) MICROSECOND,
                          TIMESTAMP'1970-01-01 00:00:00'),
    updated_at = UTC_TIMESTAMP(6)
WHERE namespace = ? AND reserved_key = ? AND worker_id = ? AND token = ?
  AND EXISTS (SELECT 1 FROM `{worker}_layout`
              WHERE namespace = ? AND epoch = ? AND (identity IN ('', ?) OR ? = ''))
  AND CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?;

-- name: list_rows
SELECT namespace, reserved_key, worker_id, token, epoch, holder, lane, marks,
       expires_at <= UTC_TIMESTAMP(6),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at) DIV 1000,
                -62135596800000),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at) DIV 1000,
                -62135596800000),
       (SELECT COUNT(*) FROM `{worker}`)
FROM `{worker}`
ORDER BY namespace, reserved_key, worker_id;

-- namespace, codes with their first numbers as JSON, session
-- name: create_segments
INSERT INTO `{segment}` (namespace, code, next_number, created_at, updated_at)
SELECT ?, new_code, first_number, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
-- The columns would have the database's character set. A name that is too long must not be cut.
FROM JSON_TABLE(?, '$[*]' COLUMNS (new_code VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[0]',
                                   first_number BIGINT PATH '$[1]')) AS new_rows
WHERE CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?
ON DUPLICATE KEY UPDATE `{segment}`.namespace = `{segment}`.namespace;

-- MySQL has no RETURNING: the connection keeps the number for the answer.
-- by, step, token, epoch, namespace, code, epoch of the row, highest, namespace, epoch, identity,
-- identity, session
-- name: reserve
UPDATE `{segment}`
SET next_number = LAST_INSERT_ID(next_number + ?), step = ?, token = ?, epoch = ?,
    updated_at = UTC_TIMESTAMP(6)
WHERE namespace = ? AND code = ? AND epoch = ? AND next_number BETWEEN 0 AND ?
  AND EXISTS (SELECT 1 FROM `{worker}_layout`
              WHERE namespace = ? AND epoch = ? AND (identity IN ('', ?) OR ? = ''))
  AND CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?;

-- The server assigns from left to right, so next_number and epoch, which the assignments compare,
-- come last. When epoch is assigned, the fresh token shows whether this statement changed the row.
-- If next_number is not raised, the number kept for the answer becomes 0, whatever the insert put
-- there.
-- namespace, code, first, by, step, token, epoch, epoch of the row, highest, namespace, epoch,
-- identity, identity, session
-- name: create_or_reserve
INSERT INTO `{segment}` (namespace, code, next_number, step, token, epoch, created_at, updated_at)
SELECT new_namespace, new_code, LAST_INSERT_ID(first_number + numbers), new_step, new_token, new_epoch,
       UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
FROM (SELECT ? AS new_namespace, ? AS new_code, CAST(? AS SIGNED) AS first_number,
             CAST(? AS SIGNED) AS numbers, CAST(? AS SIGNED) AS new_step, ? AS new_token,
             ? AS new_epoch, ? AS row_epoch, CAST(? AS SIGNED) AS highest) AS new_row
WHERE EXISTS (SELECT 1 FROM `{worker}_layout`
              WHERE namespace = ? AND epoch = ? AND (identity IN ('', ?) OR ? = ''))
  AND CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?
ON DUPLICATE KEY UPDATE
  step = IF(next_number BETWEEN 0 AND highest AND epoch = row_epoch, new_step, step),
  token = IF(next_number BETWEEN 0 AND highest AND epoch = row_epoch, new_token, token),
  updated_at = IF(next_number BETWEEN 0 AND highest AND epoch = row_epoch,
                  UTC_TIMESTAMP(6), updated_at),
  next_number = IF(next_number BETWEEN 0 AND highest AND epoch = row_epoch,
                   LAST_INSERT_ID(next_number + numbers), next_number + LAST_INSERT_ID(0)),
  epoch = IF(token = new_token, new_epoch, epoch);

-- One row for each code, in their order.
-- namespace, epoch, identity, identity, codes as JSON, namespace
-- name: read_segments
SELECT EXISTS (SELECT 1 FROM `{worker}_layout`
               WHERE namespace = ? AND epoch = ? AND (identity IN ('', ?) OR ? = '')),
       next_number, step, epoch
FROM JSON_TABLE(?, '$[*]' COLUMNS (place FOR ORDINALITY,
                                   wanted VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS codes
LEFT JOIN `{segment}` ON namespace = ? AND code = CAST(wanted AS BINARY)
ORDER BY place;

-- next number, token, namespace, code, token of the reservation, namespace, epoch, identity,
-- identity, session
-- name: give_back
UPDATE `{segment}`
SET next_number = ?, token = ?, updated_at = UTC_TIMESTAMP(6)
WHERE namespace = ? AND code = ? AND token = ?
  AND EXISTS (SELECT 1 FROM `{worker}_layout`
              WHERE namespace = ? AND epoch = ? AND (identity IN ('', ?) OR ? = ''))
  AND CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?;

-- by, token, namespace, code, token of the reservation, namespace, epoch, identity, identity,
-- session
-- name: undo
UPDATE `{segment}`
SET next_number = next_number - ?, token = ?, updated_at = UTC_TIMESTAMP(6)
WHERE namespace = ? AND code = ? AND token = ?
  AND EXISTS (SELECT 1 FROM `{worker}_layout`
              WHERE namespace = ? AND epoch = ? AND (identity IN ('', ?) OR ? = ''))
  AND CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?;

-- namespace
-- name: count_segments
SELECT COUNT(*) FROM `{segment}` WHERE namespace = ?;

-- name: list_segments
SELECT listed.namespace, listed.code, next_number, step,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', listed.updated_at) DIV 1000,
                -62135596800000),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', listed.created_at) DIV 1000,
                -62135596800000),
       epoch, settings, COUNT(*) OVER ()
FROM `{segment}` AS listed
LEFT JOIN `{segment}_settings` AS managed ON managed.namespace = listed.namespace AND managed.code = listed.code
ORDER BY listed.namespace, listed.code;

-- namespace, first code, last code, limit
-- name: segments_in
SELECT listed.namespace, listed.code, next_number, step,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', listed.updated_at) DIV 1000,
                -62135596800000),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', listed.created_at) DIV 1000,
                -62135596800000),
       epoch, settings, COUNT(*) OVER ()
FROM (SELECT * FROM `{segment}` WHERE namespace = ? AND code BETWEEN ? AND ? ORDER BY code LIMIT ?) AS listed
LEFT JOIN `{segment}_settings` AS managed ON managed.namespace = listed.namespace AND managed.code = listed.code
ORDER BY listed.code;

-- namespace, namespace
-- name: list_managed_codes
SELECT code, settings, token, (SELECT COUNT(*) FROM `{segment}_settings` WHERE namespace = ?)
FROM `{segment}_settings`
WHERE namespace = ?
ORDER BY code;

-- namespace, code, settings, token, session
-- name: create_managed_code
INSERT INTO `{segment}_settings` (namespace, code, settings, token, created_at, updated_at)
SELECT ?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
FROM DUAL
WHERE CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?
ON DUPLICATE KEY UPDATE `{segment}_settings`.namespace = `{segment}_settings`.namespace;

-- namespace, code, token
-- name: count_managed_code
SELECT COUNT(*) FROM `{segment}_settings` WHERE namespace = ? AND code = ? AND token = ?;

-- settings, token, namespace, code, expected token, session
-- name: swap_managed_code
UPDATE `{segment}_settings`
SET settings = ?, token = ?, updated_at = UTC_TIMESTAMP(6)
WHERE namespace = ? AND code = ? AND token = ?
  AND CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?;

-- The server assigns from left to right. An unfinished key of another owner is left as it is, so that
-- its age shows how long that owner has not finished it.
-- namespace, code, owner, patience in ms, keys as JSON, session
-- name: claim_keys
INSERT INTO `{segment}_keys` (namespace, code, request_key, owner, number_text, created_at, updated_at)
SELECT new_namespace, new_code, new_key, new_owner, '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
FROM (SELECT ? AS new_namespace, ? AS new_code, ? AS new_owner, CAST(? AS SIGNED) AS patience) AS claim
JOIN JSON_TABLE(?, '$[*]' COLUMNS (new_key VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS new_keys
WHERE CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?
ON DUPLICATE KEY UPDATE
  owner = IF(number_text = '' AND updated_at < UTC_TIMESTAMP(6) - INTERVAL (patience * 1000) MICROSECOND,
             new_owner, owner),
  updated_at = IF(number_text <> '' OR owner = new_owner, UTC_TIMESTAMP(6), updated_at);

-- A text that an earlier try wrote is written again, so that the answer says that it is durable.
-- texts after their keys as JSON, namespace, code, owner, session
-- name: finish_keys
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (new_key VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[0]',
                                     new_text VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[1]')) AS texts
STRAIGHT_JOIN `{segment}_keys` ON request_key = CAST(new_key AS BINARY)
SET number_text = new_text, updated_at = UTC_TIMESTAMP(6)
WHERE namespace = ? AND code = ? AND owner = ? AND number_text IN ('', new_text)
  AND CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?;

-- One row for each key, in their order.
-- keys as JSON, namespace, code
-- name: read_keys
SELECT owner, number_text
FROM JSON_TABLE(?, '$[*]' COLUMNS (place FOR ORDINALITY,
                                   wanted VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS wanted_keys
LEFT JOIN `{segment}_keys` ON namespace = ? AND code = ? AND request_key = CAST(wanted AS BINARY)
ORDER BY place;

-- age in ms, session
-- name: delete_old_keys
DELETE FROM `{segment}_keys`
WHERE created_at < UTC_TIMESTAMP(6) - INTERVAL (? * 1000) MICROSECOND
  AND CONCAT_WS(' ', COALESCE(@raindrop_session, 'not set up'), CONNECTION_ID(), @@hostname, @@port,
                @@server_id, @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit,
                @@GLOBAL.sync_binlog) = ?
ORDER BY created_at
LIMIT 1000;

-- Tables of other services: name, highest number, step, difference between neighbours, number of
-- rows. As text, since an unsigned number may be above what the driver reads.
-- name: read_leaf
SELECT CAST(biz_tag AS CHAR), CAST(max_id AS CHAR), CAST(step AS CHAR), '1',
       (SELECT COUNT(*) FROM `{table}`)
FROM `{table}`;

-- name: read_tinyid
SELECT CAST(biz_type AS CHAR), CAST(max_id AS CHAR), CAST(step AS CHAR), CAST(delta AS CHAR),
       (SELECT COUNT(*) FROM `{table}`)
FROM `{table}`;

-- name: read_cosid
SELECT CAST(name AS CHAR), CAST(last_max_id AS CHAR), '0', '1', (SELECT COUNT(*) FROM `{table}`)
FROM `{table}`;
