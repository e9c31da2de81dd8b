-- One layout per namespace.
CREATE TABLE IF NOT EXISTS "{table}_layout" (
  namespace TEXT NOT NULL PRIMARY KEY,
  words TEXT NOT NULL,    -- how the bits of an ID are divided
  complete TEXT NOT NULL DEFAULT '',    -- the reserved keys whose rows are all there, joined by commas
  since_tick INTEGER NOT NULL DEFAULT 0,    -- from which tick on there are IDs for a past time
  created_at INTEGER NOT NULL    -- Unix milliseconds, UTC
) STRICT, WITHOUT ROWID;
