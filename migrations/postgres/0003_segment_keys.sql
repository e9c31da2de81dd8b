-- One row per idempotency key. Texts are compared byte for byte.
CREATE TABLE IF NOT EXISTS "{table}_keys" (
  namespace TEXT COLLATE "C" NOT NULL,
  code TEXT COLLATE "C" NOT NULL,
  request_key TEXT COLLATE "C" NOT NULL,    -- the Idempotency-Key of a client
  owner TEXT COLLATE "C" NOT NULL,    -- token of the process that reserves the number
  number_text TEXT COLLATE "C" NOT NULL,    -- empty until the number is reserved; never changed afterwards
  created_at TIMESTAMPTZ NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL,
  PRIMARY KEY (namespace, code, request_key)
);

CREATE INDEX IF NOT EXISTS "{table}_keys_created" ON "{table}_keys" (created_at);

COMMENT ON TABLE "{table}_keys"
  IS 'Raindrop: one row per idempotency key. Nodes delete rows after 30 days';
