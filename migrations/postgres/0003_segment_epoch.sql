ALTER TABLE "{table}"
  ADD COLUMN IF NOT EXISTS epoch TEXT COLLATE "C" NOT NULL
    DEFAULT '00000000000000000000000000000000'    -- that of the layout record at the last reservation
