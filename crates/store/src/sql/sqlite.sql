-- The statements of Raindrop on SQLite. Times are Unix milliseconds.
--
-- {worker} and {segment} stand for the names of the tables, {table} for that of another table. The
-- arguments of each statement are listed above it: as on other engines, but without the session,
-- since there is no proxy between a process and its file. Every write of a row compares the epoch
-- in the namespace's record, and the record's identity with that of the file.

-- name: session
SELECT 'this file';

-- name: durability
SELECT 'synchronous', CAST(synchronous AS TEXT), '2' FROM pragma_synchronous;

-- table
-- name: list_columns
SELECT name FROM pragma_table_info(?1);

-- name: list_migrations
SELECT version FROM "{table}" WHERE success = TRUE;

-- name: forget_unfinished_migrations
DELETE FROM "{table}" WHERE success = FALSE;

-- token, words, complete, since tick, first tick, identity, epoch, history, namespace
-- name: create_record
INSERT INTO "{worker}_layout" (token, words, complete, since_tick, first_tick, identity, epoch,
                               history, namespace, created_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
WHERE TRUE
ON CONFLICT DO NOTHING;

-- namespace
-- name: read_record
SELECT token, words, complete, since_tick, first_tick, identity, epoch, history
FROM "{worker}_layout"
WHERE namespace = ?1;

-- token, words, complete, since tick, first tick, identity, epoch, history, namespace,
-- expected token, identity in the record, identity of the session, twice
-- name: swap_record
UPDATE "{worker}_layout"
SET token = ?1, words = ?2, complete = ?3, since_tick = ?4, first_tick = ?5, identity = ?6, epoch = ?7,
    history = ?8
WHERE namespace = ?9 AND token = ?10
  AND (?11 IN ('', ?12) OR ?13 = '');

-- namespace, reserved key, smallest worker, largest worker
-- name: count_rows
SELECT COUNT(*)
FROM "{worker}"
WHERE namespace = ?1 AND reserved_key = ?2 AND worker_id BETWEEN ?3 AND ?4;

-- namespace, reserved key, marks, workers with tokens as JSON, namespace, token of the record,
-- identity, identity, until when in Unix ms
-- name: create_rows
INSERT INTO "{worker}" (namespace, reserved_key, marks, worker_id, token, created_at, updated_at)
SELECT ?1, ?2, ?3, new_rows.value ->> 0, new_rows.value ->> 1,
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER),
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
FROM json_each(?4) AS new_rows
WHERE EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = ?5 AND token = ?6 AND (identity IN ('', ?7) OR ?8 = ''))
  AND CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) <= ?9
ON CONFLICT DO NOTHING;

-- namespace, reserved key, smallest worker, largest worker, namespace
-- name: survey
SELECT CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) AS now_ms,
       'this file' AS session,
       held_rows, free_rows, next_expiry_ms,
       token, words, complete, since_tick, first_tick, identity, epoch, history
FROM (SELECT COUNT(CASE WHEN expires_at > CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
                        THEN 1 END) AS held_rows,
             COUNT(CASE WHEN expires_at <= CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
                        THEN 1 END) AS free_rows,
             MIN(CASE WHEN expires_at > CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
                      THEN expires_at END) AS next_expiry_ms
      FROM "{worker}"
      WHERE namespace = ?1 AND reserved_key = ?2 AND worker_id BETWEEN ?3 AND ?4) AS counted
LEFT JOIN "{worker}_layout" ON namespace = ?5;

-- Without any row, one of nulls tells the session.
-- namespace, at most
-- name: unreleased_rows
SELECT 'this file' AS session, reserved_key, worker_id, heartbeat_at
FROM (SELECT 1 AS one) AS one
LEFT JOIN (SELECT reserved_key, worker_id, heartbeat_at
           FROM "{worker}"
           WHERE namespace = ?1 AND expires_at <> 0
           ORDER BY heartbeat_at DESC, worker_id, reserved_key
           LIMIT ?2) AS unreleased ON TRUE
ORDER BY heartbeat_at DESC, worker_id, reserved_key;

-- namespace, reserved key, smallest worker, largest worker, at most
-- name: free_rows
SELECT worker_id, token, epoch, holder, lane, marks,
       expires_at <= CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER), heartbeat_at, expires_at
FROM "{worker}"
WHERE namespace = ?1 AND reserved_key = ?2 AND worker_id BETWEEN ?3 AND ?4
  AND expires_at <= CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
ORDER BY heartbeat_at, worker_id
LIMIT ?5;

-- namespace, reserved key, smallest worker, largest worker, holder, at most
-- name: free_rows_of_holder
SELECT worker_id, token, epoch, holder, lane, marks,
       expires_at <= CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER), heartbeat_at, expires_at
FROM "{worker}"
WHERE namespace = ?1 AND reserved_key = ?2 AND worker_id BETWEEN ?3 AND ?4
  AND expires_at <= CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
  AND holder = ?5
ORDER BY heartbeat_at DESC, worker_id DESC
LIMIT ?6;

-- namespace, reserved key, worker
-- name: read_row
SELECT worker_id, token, epoch, holder, lane, marks,
       expires_at <= CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER), heartbeat_at, expires_at
FROM "{worker}"
WHERE namespace = ?1 AND reserved_key = ?2 AND worker_id = ?3;

-- token, epoch, holder, lane, marks, time to live in ms (null: released), namespace, reserved key,
-- worker, expected token, namespace, epoch, identity, identity
-- name: swap_row
UPDATE "{worker}"
SET token = ?1, epoch = ?2, holder = ?3, lane = ?4, marks = ?5,
    heartbeat_at = CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER),
    expires_at = COALESCE(CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) + ?6, 0),
    updated_at = CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
WHERE namespace = ?7 AND reserved_key = ?8 AND worker_id = ?9 AND token = ?10
  AND EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = ?11 AND epoch = ?12 AND (identity IN ('', ?13) OR ?14 = ''));

-- name: list_rows
SELECT namespace, reserved_key, worker_id, token, epoch, holder, lane, marks,
       expires_at <= CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER), heartbeat_at, expires_at,
       (SELECT COUNT(*) FROM "{worker}")
FROM "{worker}"
ORDER BY namespace, reserved_key, worker_id;

-- namespace, codes with their first numbers as JSON
-- name: create_segments
INSERT INTO "{segment}" (namespace, code, next_number, created_at, updated_at)
SELECT ?1, new_rows.value ->> 0, new_rows.value ->> 1,
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER),
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
FROM json_each(?2) AS new_rows
WHERE TRUE
ON CONFLICT DO NOTHING;

-- by, step, token, epoch, namespace, code, epoch of the row, highest, namespace, epoch, identity,
-- identity
-- name: reserve
UPDATE "{segment}"
SET next_number = next_number + ?1, step = ?2, token = ?3, epoch = ?4,
    updated_at = CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
WHERE namespace = ?5 AND code = ?6 AND epoch = ?7 AND next_number BETWEEN 0 AND ?8
  AND EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = ?9 AND epoch = ?10 AND (identity IN ('', ?11) OR ?12 = ''))
RETURNING next_number;

-- namespace, code, first, by, step, token, epoch, epoch of the row, highest, namespace, epoch,
-- identity, identity
-- name: create_or_reserve
INSERT INTO "{segment}" AS present (namespace, code, next_number, step, token, epoch, created_at,
                                    updated_at)
SELECT ?1, ?2, ?3 + ?4, ?5, ?6, ?7,
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER),
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
WHERE EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = ?10 AND epoch = ?11 AND (identity IN ('', ?12) OR ?13 = ''))
ON CONFLICT (namespace, code) DO UPDATE
SET next_number = present.next_number + ?4, step = excluded.step, token = excluded.token,
    epoch = excluded.epoch, updated_at = CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
WHERE present.next_number BETWEEN 0 AND ?9 AND present.epoch = ?8
RETURNING next_number;

-- One row for each code, in their order.
-- namespace, epoch, identity, identity, codes as JSON, namespace
-- name: read_segments
SELECT EXISTS (SELECT 1 FROM "{worker}_layout"
               WHERE namespace = ?1 AND epoch = ?2 AND (identity IN ('', ?3) OR ?4 = '')),
       next_number, step, epoch
FROM json_each(?5) AS codes
LEFT JOIN "{segment}" ON namespace = ?6 AND code = codes.value
ORDER BY codes.key;

-- next number, token, namespace, code, token of the reservation, namespace, epoch, identity,
-- identity
-- name: give_back
UPDATE "{segment}"
SET next_number = ?1, token = ?2, updated_at = CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
WHERE namespace = ?3 AND code = ?4 AND token = ?5
  AND EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = ?6 AND epoch = ?7 AND (identity IN ('', ?8) OR ?9 = ''));

-- by, token, namespace, code, token of the reservation, namespace, epoch, identity, identity
-- name: undo
UPDATE "{segment}"
SET next_number = next_number - ?1, token = ?2, updated_at = CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
WHERE namespace = ?3 AND code = ?4 AND token = ?5
  AND EXISTS (SELECT 1 FROM "{worker}_layout"
              WHERE namespace = ?6 AND epoch = ?7 AND (identity IN ('', ?8) OR ?9 = ''));

-- namespace
-- name: count_segments
SELECT COUNT(*) FROM "{segment}" WHERE namespace = ?1;

-- name: list_segments
SELECT listed.namespace, listed.code, next_number, step, listed.updated_at, listed.created_at, epoch, settings,
       COUNT(*) OVER ()
FROM "{segment}" AS listed
LEFT JOIN "{segment}_settings" AS managed ON managed.namespace = listed.namespace AND managed.code = listed.code
ORDER BY listed.namespace, listed.code;

-- namespace, first code, last code, limit
-- name: segments_in
SELECT listed.namespace, listed.code, next_number, step, listed.updated_at, listed.created_at, epoch, settings,
       COUNT(*) OVER ()
FROM (SELECT * FROM "{segment}" WHERE namespace = ?1 AND code BETWEEN ?2 AND ?3 ORDER BY code LIMIT ?4) AS listed
LEFT JOIN "{segment}_settings" AS managed ON managed.namespace = listed.namespace AND managed.code = listed.code
ORDER BY listed.code;

-- namespace, namespace
-- name: list_managed_codes
SELECT code, settings, token, (SELECT COUNT(*) FROM "{segment}_settings" WHERE namespace = ?1)
FROM "{segment}_settings"
WHERE namespace = ?2
ORDER BY code;

-- namespace, code, settings, token
-- name: create_managed_code
INSERT INTO "{segment}_settings" (namespace, code, settings, token, created_at, updated_at)
SELECT ?1, ?2, ?3, ?4,
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER),
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
WHERE TRUE
ON CONFLICT DO NOTHING;

-- namespace, code, token
-- name: count_managed_code
SELECT COUNT(*) FROM "{segment}_settings" WHERE namespace = ?1 AND code = ?2 AND token = ?3;

-- settings, token, namespace, code, expected token
-- name: swap_managed_code
UPDATE "{segment}_settings"
SET settings = ?1, token = ?2, updated_at = CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
WHERE namespace = ?3 AND code = ?4 AND token = ?5;

-- An unfinished key of another owner is left as it is, so that its age shows how long that owner has
-- not finished it.
-- namespace, code, owner, patience in ms, keys as JSON
-- name: claim_keys
INSERT INTO "{segment}_keys" AS present (namespace, code, request_key, owner, number_text, created_at,
                                         updated_at)
SELECT ?1, ?2, new_keys.value, ?3, '',
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER),
       CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
FROM json_each(?5) AS new_keys
WHERE TRUE
ON CONFLICT (namespace, code, request_key) DO UPDATE
SET owner = CASE WHEN present.number_text = '' THEN excluded.owner ELSE present.owner END,
    updated_at = CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
WHERE present.number_text <> '' OR present.owner = excluded.owner
   OR present.updated_at < CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) - ?4;

-- A text that an earlier try wrote is written again, so that the answer says that it is durable.
-- texts after their keys as JSON, namespace, code, owner
-- name: finish_keys
UPDATE "{segment}_keys"
SET number_text = texts.value ->> 1, updated_at = CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)
FROM json_each(?1) AS texts
WHERE namespace = ?2 AND code = ?3 AND owner = ?4 AND number_text IN ('', texts.value ->> 1)
  AND request_key = texts.value ->> 0;

-- One row for each key, in their order.
-- keys as JSON, namespace, code
-- name: read_keys
SELECT owner, number_text
FROM json_each(?1) AS wanted_keys
LEFT JOIN "{segment}_keys" ON namespace = ?2 AND code = ?3 AND request_key = wanted_keys.value
ORDER BY wanted_keys.key;

-- age in ms
-- name: delete_old_keys
DELETE FROM "{segment}_keys"
WHERE (namespace, code, request_key) IN (
    SELECT namespace, code, request_key
    FROM "{segment}_keys"
    WHERE created_at < CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) - ?1
    ORDER BY created_at
    LIMIT 1000);

-- Tables of other services: name, highest number, step, difference between neighbours, number of
-- rows. As text, like everywhere.
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
