-- KEYS: layout record. ARGV: reserved key.
local complete = redis.call('HGET', KEYS[1], 'complete')
if not complete then
  return
end
for key in string.gmatch(complete, '[^,]+') do
  if key == ARGV[1] then
    return
  end
end
if complete ~= '' then
  complete = complete .. ','
end
redis.call('HSET', KEYS[1], 'complete', complete .. ARGV[1])
