-- Fresh at every write.
ALTER TABLE "{table}_layout" ADD COLUMN token TEXT NOT NULL
  DEFAULT '00000000000000000000000000000000';
-- The first tick that began after this row was created.
ALTER TABLE "{table}_layout" ADD COLUMN first_tick INTEGER NOT NULL DEFAULT 0
