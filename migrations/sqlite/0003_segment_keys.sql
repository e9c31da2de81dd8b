-- One row per idempotency key. Times are Unix milliseconds, UTC.
CREATE TABLE IF NOT EXISTS "{table}_keys" (
  namespace TEXT NOT NULL,
  code TEXT NOT NULL,
  request_key TEXT NOT NULL,    -- the Idempotency-Key of a client
  owner TEXT NOT NULL,    -- token of the process that reserves the number
  number_text TEXT NOT NULL,    -- empty until the number is reserved; never changed afterwards
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, code, request_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS "{table}_keys_created" ON "{table}_keys" (created_at);
