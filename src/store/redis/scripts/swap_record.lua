-- KEYS: layout record. ARGV: expected words, words, complete, tick.
if redis.call('HGET', KEYS[1], 'words') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'words', ARGV[2], 'complete', ARGV[3], 'since_tick', ARGV[4])
return 1
