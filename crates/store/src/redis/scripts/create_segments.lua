-- KEYS: names of all codes. ARGV: prefix of codes, prefix of names, token, then code and number, …
-- A key of another type fails here, before anything is written.
redis.call('ZCARD', KEYS[1])
for index = 4, #ARGV, 2 do
  local code = ARGV[1] .. ARGV[index]
  if redis.call('EXISTS', code) == 0 then
    redis.call('HSET', code, 'next', ARGV[index + 1], 'step', '0', 'token', ARGV[3],
      'epoch', unused, 'created_at', now, 'updated_at', now)
  end
  redis.call('ZADD', KEYS[1], 0, ARGV[2] .. ARGV[index])
end
