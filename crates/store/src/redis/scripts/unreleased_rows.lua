-- KEYS: scopes. ARGV: namespace, what the names of its expiries and of its unused rows begin with, at most.
local rows = {}
for _, scope in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local reserved_key, namespace = string.match(scope, '^([^ ]*) (.*)$')
  if namespace == ARGV[1] then
    for _, worker in ipairs(redis.call('ZRANGEBYSCORE', ARGV[2] .. reserved_key, '(0', '+inf')) do
      local heartbeat = tonumber(redis.call('ZSCORE', ARGV[3] .. reserved_key, worker) or 0)
      -- Some doubles are no 64-bit integer: those count as 1970, or as the year 9999.
      heartbeat = math.max(0, math.min(heartbeat, 253402300799999))
      table.insert(rows, { reserved_key, worker, heartbeat })
    end
  end
end
table.sort(rows, function(one, other)
  if one[3] ~= other[3] then
    return one[3] > other[3]
  end
  return one[2] .. one[1] < other[2] .. other[1]
end)
local newest = {}
for index = 1, math.min(#rows, tonumber(ARGV[4])) do
  local reserved_key, worker, heartbeat = unpack(rows[index])
  table.insert(newest, { reserved_key, worker, string.format('%.0f', heartbeat) })
end
return newest
