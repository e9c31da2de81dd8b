-- One row per managed segment code. Texts are compared byte for byte.
CREATE TABLE IF NOT EXISTS "{table}_settings" (
  namespace TEXT COLLATE "C" NOT NULL,
  code TEXT COLLATE "C" NOT NULL,
  settings TEXT COLLATE "C" NOT NULL,    -- in words
  token TEXT COLLATE "C" NOT NULL,    -- fresh at every write
  created_at TIMESTAMPTZ NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL,
  PRIMARY KEY (namespace, code)
);

COMMENT ON TABLE "{table}_settings"
  IS 'Raindrop: one row per managed segment code. Never delete rows';
