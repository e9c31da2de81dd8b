-- Records that an earlier version wrote have neither a token nor a first tick.
local function record_fields(key)
  local fields = redis.call('HMGET', key, 'token', 'words', 'complete', 'since_tick', 'first_tick')
  return { fields[1] or string.rep('0', 32), fields[2], fields[3], fields[4], fields[5] or '0' }
end
