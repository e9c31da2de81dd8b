-- One row per worker id. Times are Unix milliseconds, UTC.
CREATE TABLE IF NOT EXISTS "{table}" (
  namespace TEXT NOT NULL,
  reserved_key TEXT NOT NULL,    -- width and value of the reserved bits
  worker_id INTEGER NOT NULL,
  holder TEXT NOT NULL DEFAULT '',    -- a label for people, never an identity
  token TEXT NOT NULL,    -- fresh at every write
  epoch TEXT NOT NULL DEFAULT '00000000000000000000000000000000',    -- that of the layout record at the last write
  lane INTEGER NOT NULL DEFAULT 0,    -- the lane of the last write
  marks TEXT NOT NULL,    -- one position per lane; everything below may have been issued
  heartbeat_at INTEGER NOT NULL DEFAULT 0,    -- the last write
  expires_at INTEGER NOT NULL DEFAULT 0,    -- 0 when released
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, reserved_key, worker_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS "{table}_longest_unused"
  ON "{table}" (namespace, reserved_key, heartbeat_at, worker_id);
