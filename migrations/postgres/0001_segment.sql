-- One row per segment code. Texts are compared byte for byte.
CREATE TABLE IF NOT EXISTS "{table}" (
  namespace TEXT COLLATE "C" NOT NULL,
  code TEXT COLLATE "C" NOT NULL,    -- a code, or code@tick for IDs of a past time
  next_number BIGINT NOT NULL,    -- where the next block begins
  step BIGINT NOT NULL DEFAULT 0,    -- by how much the last reservation raised it
  token TEXT COLLATE "C" NOT NULL DEFAULT '00000000000000000000000000000000',    -- fresh at every write
  epoch TEXT COLLATE "C" NOT NULL DEFAULT '00000000000000000000000000000000',    -- that of the layout record at the last reservation
  created_at TIMESTAMPTZ NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL,
  PRIMARY KEY (namespace, code)
);

COMMENT ON TABLE "{table}"
  IS 'Raindrop: one row per segment code. Never delete rows while nodes run';
