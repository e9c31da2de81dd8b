-- KEYS: layout record.
if redis.call('HEXISTS', KEYS[1], 'words') == 0 then
  return {}
end
return redis.call('HMGET', KEYS[1], 'words', 'complete', 'since_tick')
