-- A column that is there already is left out: SQLite cannot add one only where it is missing.
-- Of the last reservation: the epoch of the layout record.
ALTER TABLE "{table}" ADD COLUMN epoch TEXT NOT NULL DEFAULT '00000000000000000000000000000000'
