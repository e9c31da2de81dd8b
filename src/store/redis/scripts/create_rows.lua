-- KEYS: scopes, workers, unused, expiry. ARGV: prefix of rows, scope, marks, worker ids with tokens.
-- A key of another type fails here, before anything is written.
redis.call('SCARD', KEYS[1])
for index = 2, 4 do
  redis.call('ZCARD', KEYS[index])
end
redis.call('SADD', KEYS[1], ARGV[2])
for index = 4, #ARGV, 2 do
  local worker = ARGV[index]
  local row = ARGV[1] .. worker
  if redis.call('EXISTS', row) == 0 then
    redis.call('HSET', row, 'token', ARGV[index + 1], 'holder', '', 'lane', '0', 'marks', ARGV[3],
      'heartbeat_at', '0', 'expires_at', '0', 'created_at', now, 'updated_at', now)
    redis.call('ZADD', KEYS[2], '0', worker)
    redis.call('ZADD', KEYS[3], '0', worker)
    redis.call('ZADD', KEYS[4], '0', worker)
  end
end
