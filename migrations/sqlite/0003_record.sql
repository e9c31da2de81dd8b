-- SQLite cannot add a column only where it is missing, so the table is copied. Where it has a token
-- and a first tick already, the inner names mean those, else the values of `present`.
CREATE TABLE "{table}_layout_new" (
  namespace TEXT NOT NULL PRIMARY KEY,
  words TEXT NOT NULL,    -- how the bits of an ID are divided
  complete TEXT NOT NULL DEFAULT '',    -- the reserved keys whose rows are all there, joined by commas
  since_tick INTEGER NOT NULL DEFAULT 0,    -- from which tick on there are IDs for a past time
  created_at INTEGER NOT NULL,    -- Unix milliseconds, UTC
  token TEXT NOT NULL DEFAULT '00000000000000000000000000000000',    -- fresh at every write
  first_tick INTEGER NOT NULL DEFAULT 0    -- the first tick that began after this row was created
) STRICT, WITHOUT ROWID;
INSERT INTO "{table}_layout_new"
  SELECT namespace, words, complete, since_tick, created_at,
    (SELECT token FROM "{table}_layout" AS kept WHERE kept.namespace = present.namespace),
    (SELECT first_tick FROM "{table}_layout" AS kept WHERE kept.namespace = present.namespace)
  FROM (
    SELECT namespace, words, complete, since_tick, created_at,
      '00000000000000000000000000000000' AS token, 0 AS first_tick
    FROM "{table}_layout"
  ) AS present;
DROP TABLE "{table}_layout";
ALTER TABLE "{table}_layout_new" RENAME TO "{table}_layout"
