-- KEYS: code, names of all codes, layout record.
-- ARGV: by, end, token, where it begins or nothing, its name, step, epoch, epoch of the row, 1 if
-- identities are compared.
-- Numbers are added by Redis and compared as text: those of Lua are doubles.
if not in_epoch(KEYS[3], ARGV[7], ARGV[9]) then
  return { 'other epoch' }
end
local row = redis.call('HMGET', KEYS[1], 'next', 'step', 'epoch')
local is_new = redis.call('EXISTS', KEYS[1]) == 0
if is_new then
  if ARGV[4] == '' then
    return { 'no such code' }
  end
  row = { ARGV[4], '0', ARGV[8] }
end
local before, step, epoch = row[1], row[2], row[3]
if not before or not step or epoch ~= ARGV[8] then
  return { 'refused', before, step, epoch }
end
if is_new then
  redis.call('ZCARD', KEYS[2])
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
  return { 'refused', before, step, epoch }
end
redis.call('HSET', KEYS[1], 'token', ARGV[3], 'step', ARGV[6], 'epoch', ARGV[7],
  'updated_at', now)
if is_new then
  redis.call('ZADD', KEYS[2], 0, ARGV[5])
end
return { 'raised', before }
