-- KEYS: code, layout record. ARGV: token of the reservation, from, token, epoch, 1 if identities are
-- compared.
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] or not in_epoch(KEYS[2], ARGV[4], ARGV[5]) then
  return 0
end
redis.call('HSET', KEYS[1], 'next', ARGV[2], 'token', ARGV[3], 'updated_at', now)
return 1
