-- KEYS: layout record.
return record_fields(KEYS[1])
