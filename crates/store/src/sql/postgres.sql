-- The statements of Raindrop on PostgreSQL.
--
-- {worker} and {segment} stand for the names of the tables, {table} for that of another table. The
-- arguments of each statement are listed above it.
--
-- Every write compares the server session for which it was prepared: the session's mark and
-- process, the start of the server, whether it is a standby, and how it commits. So a statement
-- that a pooler passes to another session writes nothing, nor does one after these settings have
-- changed. Every write of a row also compares the epoch in the namespace's record, and the record's
-- identity with that of the server.
--
-- A time that a person set to `infinity` is read as the last year of the calendar, and `-infinity` as
-- the first one. The next write of such a row repairs it. Until then, a heartbeat of `infinity` makes
-- starts wait, and one of `-infinity` is no evidence that the server was rolled back.

-- name: session
SELECT concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                 pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                 pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync'));

-- The facts that a session needs about its server: the session's text, and why the server accepts
-- no writes, if so.
-- name: facts
SELECT concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                 pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                 pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')),
       CASE WHEN pg_is_in_recovery() THEN 'it is a standby: name its primary in store.url, or promote it'
            WHEN current_setting('transaction_read_only') <> 'off'
              THEN 'default_transaction_read_only is on: turn it off, or name the server that accepts writes in store.url'
            WHEN EXISTS (SELECT 1 FROM pg_subscription_rel
                         WHERE srrelid IN (to_regclass('"{worker}"'), to_regclass('"{worker}_layout"'),
                                           to_regclass('"{segment}"')))
              THEN 'it is a replica, which subscribes to the tables of another server: name that one in store.url, or DROP SUBSCRIPTION here if this one takes its place'
       END;

-- The identity of the history that a server continues. A promotion begins another timeline. If a
-- crash may lose writes, each start of the server has another identity.
-- name: history
SELECT concat_ws(' ', 'system', system_identifier,
                 'timeline', substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),
                 CASE WHEN current_setting('fsync') <> 'on'
                   THEN concat('started ', EXTRACT(EPOCH FROM pg_postmaster_start_time())) END)
FROM pg_control_system()
WHERE NOT pg_is_in_recovery();

-- Settings without which acknowledged writes may be lost, with their values and those that keep
-- them.
-- name: durability
SELECT 'fsync', current_setting('fsync'), 'on'
UNION ALL
SELECT 'full_page_writes', current_setting('full_page_writes'), 'on';

-- As the search path finds it, like the statements.
-- table
-- name: list_columns
SELECT CAST(attname AS TEXT)
FROM pg_attribute
WHERE attrelid = to_regclass(quote_ident($1)) AND attnum > 0 AND NOT attisdropped;

-- name: list_migrations
SELECT version FROM "{table}" WHERE success = TRUE;

-- name: forget_unfinished_migrations
DELETE FROM "{table}" WHERE success = FALSE;

-- table of migrations
-- name: lock_migrations
SELECT CAST(pg_advisory_lock(hashtextextended(
  'raindrop ' || COALESCE(current_schema(), '') || ' ' || $1, 0)) AS TEXT);

-- token, words, complete, since tick, first tick, identity, epoch, history, namespace, session
-- name: create_record
INSERT INTO "{worker}_layout" (token, words, complete, since_tick, first_tick, identity, epoch,
                               history, namespace, created_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, statement_timestamp()
WHERE concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $10
ON CONFLICT DO NOTHING;

-- namespace
-- name: read_record
SELECT token, words, complete, since_tick, first_tick, identity, epoch, history
FROM "{worker}_layout"
WHERE namespace = $1;

-- token, words, complete, since tick, first tick, identity, epoch, history, namespace,
-- expected token, identity in the record, identity of the session, twice, session
-- name: swap_record
UPDATE "{worker}_layout"
SET token = $1, words = $2, complete = $3, since_tick = $4, first_tick = $5, identity = $6, epoch = $7,
    history = $8
WHERE namespace = $9 AND token = $10
  AND ($11 IN ('', $12) OR $13 = '')
  AND concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $14;

-- namespace, reserved key, smallest worker, largest worker
-- name: count_rows
SELECT COUNT(*)
FROM "{worker}"
WHERE namespace = $1 AND reserved_key = $2 AND worker_id BETWEEN $3 AND $4;

-- namespace, reserved key, marks, workers with tokens as JSON, namespace, token of the record,
-- identity, identity, until when in Unix ms, session
-- name: create_rows
INSERT INTO "{worker}" (namespace, reserved_key, marks, worker_id, token, created_at, updated_at)
SELECT $1, $2, $3, CAST(new_row ->> 0 AS BIGINT), new_row ->> 1, statement_timestamp(),
       statement_timestamp()
FROM json_array_elements(CAST($4 AS JSON)) AS new_row
WHERE EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = $5 AND token = $6 AND (identity IN ('', $7) OR $8 = '')
              FOR SHARE)
  AND CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds', statement_timestamp())) * 1000)
           AS BIGINT) <= $9
  AND concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $10
ON CONFLICT DO NOTHING;

-- namespace, reserved key, smallest worker, largest worker, namespace
-- name: survey
SELECT CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds', statement_timestamp())) * 1000)
            AS BIGINT) AS now_ms,
       concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                 pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                 pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) AS session,
       held_rows, free_rows, next_expiry_ms,
       token, words, complete, since_tick, first_tick, identity, epoch, history
FROM (SELECT COUNT(CASE WHEN expires_at > statement_timestamp() THEN 1 END) AS held_rows,
             COUNT(CASE WHEN expires_at <= statement_timestamp() THEN 1 END) AS free_rows,
             CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
               MIN(CASE WHEN expires_at > statement_timestamp()
                        THEN LEAST(expires_at, '9999-12-30 00:00:00+00') END))) * 1000)
               AS BIGINT) AS next_expiry_ms
      FROM "{worker}"
      WHERE namespace = $1 AND reserved_key = $2 AND worker_id BETWEEN $3 AND $4) AS counted
LEFT JOIN "{worker}_layout" ON namespace = $5;

-- Without any row, one of nulls tells the session.
-- namespace, at most
-- name: unreleased_rows
SELECT concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                 pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                 pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) AS session,
       reserved_key, worker_id,
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds', heartbeat_at)) * 1000) AS BIGINT)
FROM (SELECT 1 AS one) AS one
LEFT JOIN (SELECT reserved_key, worker_id,
                  LEAST(GREATEST(heartbeat_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')
                    AS heartbeat_at
           FROM "{worker}"
           WHERE namespace = $1 AND expires_at <> 'epoch'
           ORDER BY heartbeat_at DESC, worker_id, reserved_key
           LIMIT $2) AS unreleased ON TRUE
ORDER BY heartbeat_at DESC, worker_id, reserved_key;

-- namespace, reserved key, smallest worker, largest worker, at most
-- name: free_rows
SELECT worker_id, token, epoch, holder, lane, marks, expires_at <= statement_timestamp(),
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(heartbeat_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT),
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(expires_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT)
FROM "{worker}"
WHERE namespace = $1 AND reserved_key = $2 AND worker_id BETWEEN $3 AND $4
  AND expires_at <= statement_timestamp()
ORDER BY heartbeat_at, worker_id
LIMIT $5;

-- namespace, reserved key, smallest worker, largest worker, holder, at most
-- name: free_rows_of_holder
SELECT worker_id, token, epoch, holder, lane, marks, expires_at <= statement_timestamp(),
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(heartbeat_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT),
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(expires_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT)
FROM "{worker}"
WHERE namespace = $1 AND reserved_key = $2 AND worker_id BETWEEN $3 AND $4
  AND expires_at <= statement_timestamp()
  AND holder = $5
ORDER BY heartbeat_at DESC, worker_id DESC
LIMIT $6;

-- namespace, reserved key, worker
-- name: read_row
SELECT worker_id, token, epoch, holder, lane, marks, expires_at <= statement_timestamp(),
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(heartbeat_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT),
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(expires_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT)
FROM "{worker}"
WHERE namespace = $1 AND reserved_key = $2 AND worker_id = $3;

-- token, epoch, holder, lane, marks, time to live in ms (null: released), namespace, reserved key,
-- worker, expected token, namespace, epoch, identity, identity, session
-- name: swap_row
UPDATE "{worker}"
SET token = $1, epoch = $2, holder = $3, lane = $4, marks = $5,
    heartbeat_at = statement_timestamp(),
    expires_at = COALESCE(statement_timestamp() + $6 * INTERVAL '1 millisecond',
                          TIMESTAMPTZ '1970-01-01 00:00:00+00'),
    updated_at = statement_timestamp()
WHERE namespace = $7 AND reserved_key = $8 AND worker_id = $9 AND token = $10
  AND EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = $11 AND epoch = $12 AND (identity IN ('', $13) OR $14 = ''))
  AND concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $15;

-- name: list_rows
SELECT namespace, reserved_key, worker_id, token, epoch, holder, lane, marks,
       expires_at <= statement_timestamp(),
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(heartbeat_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT),
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(expires_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT),
       (SELECT COUNT(*) FROM "{worker}")
FROM "{worker}"
ORDER BY namespace, reserved_key, worker_id;

-- namespace, codes with their first numbers as JSON, session
-- name: create_segments
INSERT INTO "{segment}" (namespace, code, next_number, created_at, updated_at)
SELECT $1, new_row ->> 0, CAST(new_row ->> 1 AS BIGINT), statement_timestamp(), statement_timestamp()
FROM json_array_elements(CAST($2 AS JSON)) AS new_row
WHERE concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $3
ON CONFLICT DO NOTHING;

-- by, step, token, epoch, namespace, code, epoch of the row, highest, namespace, epoch, identity,
-- identity, session
-- name: reserve
UPDATE "{segment}"
SET next_number = next_number + $1, step = $2, token = $3, epoch = $4,
    updated_at = statement_timestamp()
WHERE namespace = $5 AND code = $6 AND epoch = $7 AND next_number BETWEEN 0 AND $8
  AND EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = $9 AND epoch = $10 AND (identity IN ('', $11) OR $12 = ''))
  AND concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $13
RETURNING next_number;

-- namespace, code, first, by, step, token, epoch, epoch of the row, highest, namespace, epoch,
-- identity, identity, session
-- name: create_or_reserve
INSERT INTO "{segment}" AS present (namespace, code, next_number, step, token, epoch, created_at,
                                    updated_at)
SELECT $1, $2, CAST($3 AS BIGINT) + CAST($4 AS BIGINT), $5, $6, $7,
       statement_timestamp(), statement_timestamp()
WHERE EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = $10 AND epoch = $11 AND (identity IN ('', $12) OR $13 = ''))
  AND concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $14
ON CONFLICT (namespace, code) DO UPDATE
SET next_number = present.next_number + $4, step = excluded.step, token = excluded.token,
    epoch = excluded.epoch, updated_at = statement_timestamp()
WHERE present.next_number BETWEEN 0 AND $9 AND present.epoch = $8
RETURNING next_number;

-- One row for each code, in their order.
-- namespace, epoch, identity, identity, codes as JSON, namespace
-- name: read_segments
SELECT EXISTS (SELECT 1 FROM "{worker}_layout"
               WHERE namespace = $1 AND epoch = $2 AND (identity IN ('', $3) OR $4 = '')),
       next_number, step, epoch
FROM json_array_elements_text(CAST($5 AS JSON)) WITH ORDINALITY AS codes (wanted, place)
LEFT JOIN "{segment}" ON namespace = $6 AND code = wanted COLLATE "C"
ORDER BY place;

-- next number, token, namespace, code, token of the reservation, namespace, epoch, identity,
-- identity, session
-- name: give_back
UPDATE "{segment}"
SET next_number = $1, token = $2, updated_at = statement_timestamp()
WHERE namespace = $3 AND code = $4 AND token = $5
  AND EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = $6 AND epoch = $7 AND (identity IN ('', $8) OR $9 = ''))
  AND concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $10;

-- by, token, namespace, code, token of the reservation, namespace, epoch, identity, identity,
-- session
-- name: undo
UPDATE "{segment}"
SET next_number = next_number - $1, token = $2, updated_at = statement_timestamp()
WHERE namespace = $3 AND code = $4 AND token = $5
  AND EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = $6 AND epoch = $7 AND (identity IN ('', $8) OR $9 = ''))
  AND concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $10;

-- namespace
-- name: count_segments
SELECT COUNT(*) FROM "{segment}" WHERE namespace = $1;

-- name: list_segments
SELECT listed.namespace, listed.code, next_number, step,
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(listed.updated_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT),
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(listed.created_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT),
       epoch, settings, COUNT(*) OVER ()
FROM "{segment}" AS listed
LEFT JOIN "{segment}_settings" AS managed ON managed.namespace = listed.namespace AND managed.code = listed.code
ORDER BY listed.namespace, listed.code;

-- namespace, first code, last code, limit
-- name: segments_in
SELECT listed.namespace, listed.code, next_number, step,
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(listed.updated_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT),
       CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds',
         LEAST(GREATEST(listed.created_at, '0001-01-01 00:00:00+00'), '9999-12-30 00:00:00+00')))
         * 1000) AS BIGINT),
       epoch, settings, COUNT(*) OVER ()
FROM (SELECT * FROM "{segment}" WHERE namespace = $1 AND code BETWEEN $2 AND $3 ORDER BY code LIMIT $4) AS listed
LEFT JOIN "{segment}_settings" AS managed ON managed.namespace = listed.namespace AND managed.code = listed.code
ORDER BY listed.code;

-- namespace, namespace
-- name: list_managed_codes
SELECT code, settings, token, (SELECT COUNT(*) FROM "{segment}_settings" WHERE namespace = $1)
FROM "{segment}_settings"
WHERE namespace = $2
ORDER BY code;

-- namespace, code, settings, token, session
-- name: create_managed_code
INSERT INTO "{segment}_settings" (namespace, code, settings, token, created_at, updated_at)
SELECT $1, $2, $3, $4, statement_timestamp(), statement_timestamp()
WHERE concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $5
ON CONFLICT DO NOTHING;

-- namespace, code, token
-- name: count_managed_code
SELECT COUNT(*) FROM "{segment}_settings" WHERE namespace = $1 AND code = $2 AND token = $3;

-- settings, token, namespace, code, expected token, session
-- name: swap_managed_code
UPDATE "{segment}_settings"
SET settings = $1, token = $2, updated_at = statement_timestamp()
WHERE namespace = $3 AND code = $4 AND token = $5
  AND concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $6;

-- An unfinished key of another owner is left as it is, so that its age shows how long that owner has
-- not finished it.
-- namespace, code, owner, patience in ms, keys as JSON, session
-- name: claim_keys
INSERT INTO "{segment}_keys" AS present (namespace, code, request_key, owner, number_text, created_at,
                                         updated_at)
SELECT $1, $2, new_key, $3, '', statement_timestamp(), statement_timestamp()
FROM json_array_elements_text(CAST($5 AS JSON)) AS new_key
WHERE concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $6
ON CONFLICT (namespace, code, request_key) DO UPDATE
SET owner = CASE WHEN present.number_text = '' THEN excluded.owner ELSE present.owner END,
    updated_at = statement_timestamp()
WHERE present.number_text <> '' OR present.owner = excluded.owner
   OR present.updated_at < statement_timestamp() - $4 * INTERVAL '1 millisecond';

-- A text that an earlier try wrote is written again, so that the answer says that it is durable.
-- texts after their keys as JSON, namespace, code, owner, session
-- name: finish_keys
UPDATE "{segment}_keys"
SET number_text = texts.pair ->> 1, updated_at = statement_timestamp()
FROM json_array_elements(CAST($1 AS JSON)) AS texts (pair)
WHERE namespace = $2 AND code = $3 AND owner = $4 AND number_text IN ('', texts.pair ->> 1)
  AND request_key = (texts.pair ->> 0) COLLATE "C"
  AND concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $5;

-- One row for each key, in their order.
-- keys as JSON, namespace, code
-- name: read_keys
SELECT owner, number_text
FROM json_array_elements_text(CAST($1 AS JSON)) WITH ORDINALITY AS wanted_keys (wanted, place)
LEFT JOIN "{segment}_keys" ON namespace = $2 AND code = $3 AND request_key = wanted COLLATE "C"
ORDER BY place;

-- age in ms, session
-- name: delete_old_keys
DELETE FROM "{segment}_keys"
WHERE (namespace, code, request_key) IN (
    SELECT namespace, code, request_key
    FROM "{segment}_keys"
    WHERE created_at < statement_timestamp() - $1 * INTERVAL '1 millisecond'
    ORDER BY created_at
    LIMIT 1000)
  AND concat_ws(' ', COALESCE(NULLIF(current_setting('raindrop.session', TRUE), ''), 'not set up'),
                pg_backend_pid(), EXTRACT(EPOCH FROM pg_postmaster_start_time()),
                pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')) = $2;

-- Tables of other services: name, highest number, step, difference between neighbours, number of
-- rows. As text, since a number may be above what the driver reads.
-- name: read_leaf
SELECT CAST(biz_tag AS TEXT), CAST(max_id AS TEXT), CAST(step AS TEXT), '1',
       (SELECT COUNT(*) FROM "{table}")
FROM "{table}";

-- name: read_tinyid
SELECT CAST(biz_type AS TEXT), CAST(max_id AS TEXT), CAST(step AS TEXT), CAST(delta AS TEXT),
       (SELECT COUNT(*) FROM "{table}")
FROM "{table}";

-- name: read_cosid
SELECT CAST(name AS TEXT), CAST(last_max_id AS TEXT), '0', '1', (SELECT COUNT(*) FROM "{table}")
FROM "{table}";
