-- The server's clock in whole milliseconds, as text: numbers of Lua are doubles, and some are
-- written with an exponent.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))

-- Records that an earlier version wrote have neither a token nor a first tick.
local function record_fields(key)
  local fields = redis.call('HMGET', key, 'token', 'words', 'complete', 'since_tick', 'first_tick')
  return { fields[1] or string.rep('0', 32), fields[2], fields[3], fields[4], fields[5] or '0' }
end

-- Worker id, token, holder, lane, marks, whether the row is free, heartbeat, expiry; nothing where
-- there is no row. An expiry that is no number is returned for the complaint.
local function row_fields(key, worker)
  if redis.call('EXISTS', key) == 0 then
    return nil
  end
  local fields = redis.call('HMGET', key, 'token', 'holder', 'lane', 'marks', 'heartbeat_at',
    'expires_at')
  local free, expiry = fields[6], tonumber(fields[6] or '')
  if expiry then
    free = expiry <= tonumber(now) and '1' or '0'
  end
  return { worker, fields[1], fields[2], fields[3], fields[4], free, fields[5], fields[6] }
end

