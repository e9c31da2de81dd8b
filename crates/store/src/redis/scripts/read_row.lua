-- KEYS: row. ARGV: worker id.
return { row_fields(KEYS[1], ARGV[1]) }
