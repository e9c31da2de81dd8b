-- KEYS: layout record. ARGV: token, words, complete, since tick, first tick, identity, epoch,
-- history.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'words', ARGV[2], 'complete', ARGV[3],
    'since_tick', ARGV[4], 'first_tick', ARGV[5], 'identity', ARGV[6], 'epoch', ARGV[7],
    'history', ARGV[8], 'created_at', now)
end
return record_fields(KEYS[1])
