-- KEYS: row, unused, expiry, layout record.
-- ARGV: worker id, expected token, token, holder, lane, marks, milliseconds or nothing, epoch,
-- 1 if identities are compared.
-- A key of another type fails here, before anything is written.
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', KEYS[3])
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[2]
  or not in_epoch(KEYS[4], ARGV[8], ARGV[9]) then
  return 0
end
local expires = '0'
if ARGV[7] ~= '' then
  expires = string.format('%.0f', tonumber(now) + tonumber(ARGV[7]))
end
redis.call('HSET', KEYS[1], 'token', ARGV[3], 'epoch', ARGV[8], 'holder', ARGV[4], 'lane', ARGV[5],
  'marks', ARGV[6], 'heartbeat_at', now, 'expires_at', expires, 'updated_at', now)
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('ZADD', KEYS[3], expires, ARGV[1])
return 1
