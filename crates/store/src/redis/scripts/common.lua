-- The server's clock in whole milliseconds, as text: numbers of Lua are doubles, and some are
-- written with an exponent.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))

local unused = string.rep('0', 32)

-- The identity of the server. Its replication id changes when a replica is promoted, and whenever
-- the server is started. Empty where identities are not compared.
local function server(compared)
  if compared ~= '1' then
    return ''
  end
  local info = redis.pcall('INFO', 'replication')
  if type(info) == 'table' then
    return 'unknown, because INFO is not allowed'
  end
  return 'replication ' .. (string.match(info, 'master_replid:(%w+)') or 'unknown')
end

-- The fields of a record; nothing where there is no record.
local function record_fields(key)
  if redis.call('EXISTS', key) == 0 then
    return {}
  end
  return redis.call('HMGET', key, 'token', 'words', 'complete', 'since_tick', 'first_tick',
    'identity', 'epoch', 'history')
end

-- Whether this server continues the history of a record with this identity.
local function continues(identity, compared)
  return compared ~= '1' or identity == '' or identity == server(compared)
end

-- Whether there is a record with this epoch, and this server continues its history.
local function in_epoch(key, epoch, compared)
  local fields = record_fields(key)
  return fields[7] == epoch and continues(fields[6], compared)
end

-- Worker id, token, epoch, holder, lane, marks, whether the row is free, heartbeat, expiry; nothing where
-- there is no row. An expiry that is no number is returned for the complaint.
local function row_fields(key, worker)
  if redis.call('EXISTS', key) == 0 then
    return nil
  end
  local fields = redis.call('HMGET', key, 'token', 'holder', 'lane', 'marks', 'heartbeat_at',
    'expires_at', 'epoch')
  local free, expiry = fields[6], tonumber(fields[6] or '')
  if expiry then
    free = expiry <= tonumber(now) and '1' or '0'
  end
  return { worker, fields[1], fields[7], fields[2], fields[3], fields[4], free, fields[5],
    fields[6] }
end

