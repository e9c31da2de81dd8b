-- KEYS: layout record, workers, expiry. ARGV: smallest and largest worker id, 1 if identities are compared.
local held, next_expiry = 0, ''
local found = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. now, '+inf', 'WITHSCORES')
for index = 1, #found, 2 do
  if found[index] >= ARGV[1] and found[index] <= ARGV[2] then
    held = held + 1
    if next_expiry == '' then
      next_expiry = string.format('%.0f', tonumber(found[index + 1]))
    end
  end
end
local workers = redis.call('ZLEXCOUNT', KEYS[2], '[' .. ARGV[1], '[' .. ARGV[2])
return { now, server(ARGV[3]), held, workers - held, next_expiry, record_fields(KEYS[1]) }
