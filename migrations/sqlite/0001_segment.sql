-- One row per segment code. Times are Unix milliseconds, UTC.
CREATE TABLE IF NOT EXISTS "{table}" (
  namespace TEXT NOT NULL,
  code TEXT NOT NULL,    -- a code, or code@tick for IDs of a past time
  next_number INTEGER NOT NULL,    -- where the next block begins
  step INTEGER NOT NULL DEFAULT 0,    -- by how much the last reservation raised it
  token TEXT NOT NULL DEFAULT '00000000000000000000000000000000',    -- fresh at every write
  epoch TEXT NOT NULL DEFAULT '00000000000000000000000000000000',    -- that of the layout record at the last reservation
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, code)
) STRICT, WITHOUT ROWID;
