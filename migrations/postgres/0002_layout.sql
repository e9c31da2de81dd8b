-- One layout per namespace.
CREATE TABLE IF NOT EXISTS "{table}_layout" (
  namespace TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  token TEXT COLLATE "C" NOT NULL,    -- fresh at every write
  words TEXT COLLATE "C" NOT NULL,    -- how the bits of an ID are divided
  complete TEXT COLLATE "C" NOT NULL,    -- the reserved keys that have rows, joined by commas; after a colon, which
  since_tick BIGINT NOT NULL,    -- from which tick on there are IDs for a past time
  first_tick BIGINT NOT NULL,    -- the first tick that began after this row was created
  identity TEXT COLLATE "C" NOT NULL,    -- the server that the present epoch began on
  epoch TEXT COLLATE "C" NOT NULL,    -- random, another one after each fail-over
  history TEXT COLLATE "C" NOT NULL,    -- when the epoch began, its barrier, the reach of leases, earlier epochs
  created_at TIMESTAMPTZ NOT NULL
);

COMMENT ON TABLE "{table}_layout" IS 'Raindrop: one layout per namespace';
