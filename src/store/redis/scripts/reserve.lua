-- KEYS: code. ARGV: by, end, token.
-- Numbers are added by Redis and compared as text: those of Lua are doubles.
local before = redis.call('HGET', KEYS[1], 'next')
if not before then
  return {}
end
local raised = redis.pcall('HINCRBY', KEYS[1], 'next', ARGV[1])
if type(raised) == 'table' and raised.err then
  if string.find(raised.err, 'overflow') then
    return { '0', before }
  end
  return raised
end
local after = redis.call('HGET', KEYS[1], 'next')
if #after > #ARGV[2] or (#after == #ARGV[2] and after > ARGV[2]) then
  redis.call('HSET', KEYS[1], 'next', before)
  return { '0', before }
end
redis.call('HSET', KEYS[1], 'token', ARGV[3], 'step', ARGV[1], 'updated_at', now)
return { '1', before }
