-- KEYS: layout record. ARGV: words.
if redis.call('HEXISTS', KEYS[1], 'words') == 0 then
  redis.call('HSET', KEYS[1], 'words', ARGV[1], 'complete', '', 'since_tick', '0',
    'created_at', now)
end
return redis.call('HMGET', KEYS[1], 'words', 'complete', 'since_tick')
