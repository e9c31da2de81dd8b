-- A column that is there already is left out: SQLite cannot add one only where it is missing.
-- Of the last write: the epoch of the layout record.
ALTER TABLE "{table}" ADD COLUMN epoch TEXT NOT NULL DEFAULT '00000000000000000000000000000000';
-- The file that the present epoch began in.
ALTER TABLE "{table}_layout" ADD COLUMN identity TEXT NOT NULL DEFAULT '';
-- Random, another one after each copy.
ALTER TABLE "{table}_layout" ADD COLUMN epoch TEXT NOT NULL DEFAULT '00000000000000000000000000000000';
-- When the epoch began, its barrier, the reach of leases, earlier epochs.
ALTER TABLE "{table}_layout" ADD COLUMN history TEXT NOT NULL DEFAULT ''
