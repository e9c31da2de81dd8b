-- One row per worker id. Texts are compared byte for byte.
CREATE TABLE IF NOT EXISTS "{table}" (
  namespace TEXT COLLATE "C" NOT NULL,
  reserved_key TEXT COLLATE "C" NOT NULL,    -- width and value of the reserved bits
  worker_id BIGINT NOT NULL,
  holder TEXT COLLATE "C" NOT NULL DEFAULT '',    -- a label for people, never an identity
  token TEXT COLLATE "C" NOT NULL,    -- fresh at every write
  epoch TEXT COLLATE "C" NOT NULL DEFAULT '00000000000000000000000000000000',    -- that of the layout record at the last write
  lane SMALLINT NOT NULL DEFAULT 0,    -- the lane of the last write
  marks TEXT COLLATE "C" NOT NULL,    -- one position per lane; everything below may have been issued
  heartbeat_at TIMESTAMPTZ NOT NULL DEFAULT '1970-01-01 00:00:00+00',    -- the last write
  expires_at TIMESTAMPTZ NOT NULL DEFAULT '1970-01-01 00:00:00+00',    -- 1970 when released
  created_at TIMESTAMPTZ NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL,
  PRIMARY KEY (namespace, reserved_key, worker_id)
);

CREATE INDEX IF NOT EXISTS "{table}_longest_unused"
  ON "{table}" (namespace, reserved_key, heartbeat_at, worker_id);

COMMENT ON TABLE "{table}"
  IS 'Raindrop: one row per worker id. Never delete rows while nodes run';
