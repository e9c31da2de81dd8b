-- One layout per namespace.
CREATE TABLE IF NOT EXISTS "{table}_layout" (
  namespace TEXT NOT NULL PRIMARY KEY,
  token TEXT NOT NULL,    -- fresh at every write
  words TEXT NOT NULL,    -- how the bits of an ID are divided
  complete TEXT NOT NULL,    -- the reserved keys that have rows, joined by commas; after a colon, which
  since_tick INTEGER NOT NULL,    -- from which tick on there are IDs for a past time
  first_tick INTEGER NOT NULL,    -- the first tick that began after this row was created
  identity TEXT NOT NULL,    -- the file that the present epoch began in
  epoch TEXT NOT NULL,    -- random, another one after each copy
  history TEXT NOT NULL,    -- when the epoch began, its barrier, the reach of leases, earlier epochs
  created_at INTEGER NOT NULL    -- Unix milliseconds, UTC
) STRICT, WITHOUT ROWID;
