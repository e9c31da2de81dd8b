-- KEYS: layout record. ARGV: expected token, token, words, complete, since tick, first tick,
-- identity, epoch, history, 1 if identities are compared.
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] or not continues(ARGV[7], ARGV[10]) then
  return 0
end
redis.call('HSET', KEYS[1], 'token', ARGV[2], 'words', ARGV[3], 'complete', ARGV[4],
  'since_tick', ARGV[5], 'first_tick', ARGV[6], 'identity', ARGV[7], 'epoch', ARGV[8],
  'history', ARGV[9])
return 1
