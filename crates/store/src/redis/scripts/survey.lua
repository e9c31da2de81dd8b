-- KEYS: layout record, workers, expiry, unused. ARGV: smallest and largest worker id,
-- 1 if identities are compared.
local held, next_expiry, newest = 0, '', 0
-- Those that were not released.
local found = redis.call('ZRANGEBYSCORE', KEYS[3], '(0', '+inf', 'WITHSCORES')
for index = 1, #found, 2 do
  if found[index] >= ARGV[1] and found[index] <= ARGV[2] then
    local expiry = tonumber(found[index + 1])
    if expiry > tonumber(now) then
      held = held + 1
      if next_expiry == '' then
        next_expiry = string.format('%.0f', expiry)
      end
    end
    newest = math.max(newest, tonumber(redis.call('ZSCORE', KEYS[4], found[index]) or 0))
  end
end
newest = newest > 0 and string.format('%.0f', newest) or ''
local workers = redis.call('ZLEXCOUNT', KEYS[2], '[' .. ARGV[1], '[' .. ARGV[2])
return { now, server(ARGV[3]), held, workers - held, next_expiry, newest, record_fields(KEYS[1]) }
