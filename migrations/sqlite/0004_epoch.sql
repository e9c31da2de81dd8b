-- SQLite cannot add a column only where it is missing, so the tables are copied. Where one has the
-- new columns already, the inner names mean those, else the values of `present`.
CREATE TABLE "{table}_new" (
  namespace TEXT NOT NULL,
  reserved_key TEXT NOT NULL,    -- width and value of the reserved bits
  worker_id INTEGER NOT NULL,
  holder TEXT NOT NULL DEFAULT '',    -- a label for people, never an identity
  token TEXT NOT NULL DEFAULT '00000000000000000000000000000000',    -- fresh at every write
  lane INTEGER NOT NULL DEFAULT 0,    -- the lane of the last write
  marks TEXT NOT NULL,    -- one position per lane; everything below may have been issued
  heartbeat_at INTEGER NOT NULL DEFAULT 0,    -- the last write
  expires_at INTEGER NOT NULL DEFAULT 0,    -- 0 when released
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  epoch TEXT NOT NULL DEFAULT '00000000000000000000000000000000',    -- that of the layout record at the last write
  PRIMARY KEY (namespace, reserved_key, worker_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "{table}_new"
  SELECT namespace, reserved_key, worker_id, holder, token, lane, marks, heartbeat_at, expires_at,
    created_at, updated_at,
    (SELECT epoch FROM "{table}" AS kept WHERE kept.namespace = present.namespace
      AND kept.reserved_key = present.reserved_key AND kept.worker_id = present.worker_id)
  FROM (
    SELECT namespace, reserved_key, worker_id, holder, token, lane, marks, heartbeat_at, expires_at,
      created_at, updated_at, '00000000000000000000000000000000' AS epoch
    FROM "{table}"
  ) AS present;
DROP TABLE "{table}";
ALTER TABLE "{table}_new" RENAME TO "{table}";
CREATE INDEX "{table}_longest_unused"
  ON "{table}" (namespace, reserved_key, heartbeat_at, worker_id);

CREATE TABLE "{table}_layout_new" (
  namespace TEXT NOT NULL PRIMARY KEY,
  words TEXT NOT NULL,    -- how the bits of an ID are divided
  complete TEXT NOT NULL DEFAULT '',    -- the reserved keys whose rows are all there, joined by commas
  since_tick INTEGER NOT NULL DEFAULT 0,    -- from which tick on there are IDs for a past time
  created_at INTEGER NOT NULL,    -- Unix milliseconds, UTC
  token TEXT NOT NULL DEFAULT '00000000000000000000000000000000',    -- fresh at every write
  first_tick INTEGER NOT NULL DEFAULT 0,    -- the first tick that began after this row was created
  identity TEXT NOT NULL DEFAULT '',    -- the file that the present epoch began in
  epoch TEXT NOT NULL DEFAULT '00000000000000000000000000000000',    -- random, another one after each copy
  history TEXT NOT NULL DEFAULT ''    -- when the epoch began, its barrier, the reach of leases, earlier epochs
) STRICT, WITHOUT ROWID;
INSERT INTO "{table}_layout_new"
  SELECT namespace, words, complete, since_tick, created_at, token, first_tick,
    (SELECT identity FROM "{table}_layout" AS kept WHERE kept.namespace = present.namespace),
    (SELECT epoch FROM "{table}_layout" AS kept WHERE kept.namespace = present.namespace),
    (SELECT history FROM "{table}_layout" AS kept WHERE kept.namespace = present.namespace)
  FROM (
    SELECT namespace, words, complete, since_tick, created_at, token, first_tick,
      '' AS identity, '00000000000000000000000000000000' AS epoch, '' AS history
    FROM "{table}_layout"
  ) AS present;
DROP TABLE "{table}_layout";
ALTER TABLE "{table}_layout_new" RENAME TO "{table}_layout"
