-- KEYS: layout record.
if redis.call('HEXISTS', KEYS[1], 'words') == 0 then
  return {}
end
return record_fields(KEYS[1])
