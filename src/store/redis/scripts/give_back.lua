-- KEYS: code. ARGV: token of the reservation, from, token.
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'next', ARGV[2], 'token', ARGV[3], 'updated_at', now)
return 1
