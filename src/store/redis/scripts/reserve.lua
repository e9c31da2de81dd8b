-- KEYS: code, names of all codes. ARGV: by, end, token, where it begins or nothing, its name.
-- Numbers are added by Redis and compared as text: those of Lua are doubles.
local before = redis.call('HGET', KEYS[1], 'next')
local is_new = not before
if is_new then
  if ARGV[4] == '' then
    return {}
  end
  before = ARGV[4]
  redis.call('SCARD', KEYS[2])
  redis.call('HSET', KEYS[1], 'next', before, 'created_at', now)
end
local raised = redis.pcall('HINCRBY', KEYS[1], 'next', ARGV[1])
local fits = type(raised) == 'number'
if not fits and not string.find(raised.err, 'overflow') then
  return raised
end
if fits then
  local after = redis.call('HGET', KEYS[1], 'next')
  fits = #after < #ARGV[2] or (#after == #ARGV[2] and after <= ARGV[2])
end
if not fits then
  if is_new then
    redis.call('DEL', KEYS[1])
  else
    redis.call('HSET', KEYS[1], 'next', before)
  end
  return { '0', before }
end
redis.call('HSET', KEYS[1], 'token', ARGV[3], 'step', ARGV[1], 'updated_at', now)
if is_new then
  redis.call('SADD', KEYS[2], ARGV[5])
end
return { '1', before }
