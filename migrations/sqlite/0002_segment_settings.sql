-- One row per managed segment code. Times are Unix milliseconds, UTC.
CREATE TABLE IF NOT EXISTS "{table}_settings" (
  namespace TEXT NOT NULL,
  code TEXT NOT NULL,
  settings TEXT NOT NULL,    -- in words
  token TEXT NOT NULL,    -- fresh at every write
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, code)
) STRICT, WITHOUT ROWID;
