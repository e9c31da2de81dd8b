-- KEYS: names of all codes. ARGV: prefix of names.
local count = 0
for _, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  if string.sub(name, 1, #ARGV[1]) == ARGV[1] then
    count = count + 1
  end
end
return count
