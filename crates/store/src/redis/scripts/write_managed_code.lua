-- KEYS: settings of a namespace's codes. ARGV: code, expected token or nothing, token, settings.
local present = redis.call('HGET', KEYS[1], ARGV[1])
if (present and string.sub(present, 1, 32) or '') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. ' ' .. ARGV[4])
return 1
