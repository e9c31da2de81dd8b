-- SQLite cannot add a column only where it is missing, so the table is copied. Where it has an epoch
-- already, the inner name means that, else the value of `present`.
CREATE TABLE "{table}_new" (
  namespace TEXT NOT NULL,
  code TEXT NOT NULL,    -- a code, or code@tick for IDs of a past time
  next_number INTEGER NOT NULL,    -- where the next block begins
  step INTEGER NOT NULL DEFAULT 0,    -- by how much the last reservation raised it
  token TEXT NOT NULL DEFAULT '00000000000000000000000000000000',    -- fresh at every write
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  epoch TEXT NOT NULL DEFAULT '00000000000000000000000000000000',    -- that of the layout record at the last reservation
  PRIMARY KEY (namespace, code)
) STRICT, WITHOUT ROWID;
INSERT INTO "{table}_new"
  SELECT namespace, code, next_number, step, token, created_at, updated_at,
    (SELECT epoch FROM "{table}" AS kept
      WHERE kept.namespace = present.namespace AND kept.code = present.code)
  FROM (
    SELECT namespace, code, next_number, step, token, created_at, updated_at, '00000000000000000000000000000000' AS epoch
    FROM "{table}"
  ) AS present;
DROP TABLE "{table}";
ALTER TABLE "{table}_new" RENAME TO "{table}"
