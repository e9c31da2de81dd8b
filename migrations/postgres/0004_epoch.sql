ALTER TABLE "{table}"
  ADD COLUMN IF NOT EXISTS epoch TEXT COLLATE "C" NOT NULL
    DEFAULT '00000000000000000000000000000000';    -- that of the layout record at the last write
ALTER TABLE "{table}_layout"
  ADD COLUMN IF NOT EXISTS identity TEXT COLLATE "C" NOT NULL
    DEFAULT '',    -- the server that the present epoch began on
  ADD COLUMN IF NOT EXISTS epoch TEXT COLLATE "C" NOT NULL
    DEFAULT '00000000000000000000000000000000',    -- random, another one after each fail-over
  ADD COLUMN IF NOT EXISTS history TEXT COLLATE "C" NOT NULL
    DEFAULT ''    -- when the epoch began, its barrier, the reach of leases, earlier epochs
