-- One layout per namespace.
CREATE TABLE IF NOT EXISTS "{table}_layout" (
  namespace TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  words TEXT COLLATE "C" NOT NULL,    -- how the bits of an ID are divided
  complete TEXT COLLATE "C" NOT NULL DEFAULT '',    -- the reserved keys whose rows are all there, joined by commas
  since_tick BIGINT NOT NULL DEFAULT 0,    -- from which tick on there are IDs for a past time
  created_at TIMESTAMPTZ NOT NULL
);

COMMENT ON TABLE "{table}_layout" IS 'Raindrop: one layout per namespace';
