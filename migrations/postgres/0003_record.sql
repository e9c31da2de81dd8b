ALTER TABLE "{table}_layout"
  ADD COLUMN IF NOT EXISTS token TEXT COLLATE "C" NOT NULL
    DEFAULT '00000000000000000000000000000000',    -- fresh at every write
  ADD COLUMN IF NOT EXISTS first_tick BIGINT NOT NULL
    DEFAULT 0    -- the first tick that began after this row was created
