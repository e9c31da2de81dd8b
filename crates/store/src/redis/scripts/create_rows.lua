-- KEYS: layout record, scopes, workers, unused, expiry.
-- ARGV: prefix of rows, scope, marks, token of the record, latest time, 1 if
-- identities are compared, worker ids with tokens.
-- A key of another type fails here, before anything is written.
redis.call('SCARD', KEYS[2])
for index = 3, 5 do
  redis.call('ZCARD', KEYS[index])
end
local record = record_fields(KEYS[1])
local holds = record[1] == ARGV[4] and tonumber(now) <= tonumber(ARGV[5])
  and continues(record[6], ARGV[6])
redis.call('SADD', KEYS[2], ARGV[2])
for index = 7, #ARGV, 2 do
  local worker = ARGV[index]
  local row = ARGV[1] .. worker
  if redis.call('EXISTS', row) == 0 then
    if not holds then
      return 0
    end
    redis.call('HSET', row, 'token', ARGV[index + 1], 'epoch', unused, 'holder', '', 'lane', '0',
      'marks', ARGV[3], 'heartbeat_at', '0', 'expires_at', '0', 'created_at', now, 'updated_at', now)
    redis.call('ZADD', KEYS[3], '0', worker)
    redis.call('ZADD', KEYS[4], '0', worker)
    redis.call('ZADD', KEYS[5], '0', worker)
  end
end
return 1
