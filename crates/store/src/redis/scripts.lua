-- The Lua scripts of Raindrop on Redis. Each begins with the part `common`.
--
-- A script's keys and arguments are listed below its name. scripts.rs says what every script must
-- observe.

-- name: common
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

-- The fields of a hash with these names; nothing where the key has another type. One such key must
-- not keep nodes from all other rows.
local function hash_fields(key, ...)
  local fields = redis.pcall('HMGET', key, ...)
  if not fields.err then
    return fields
  elseif not string.find(fields.err, 'WRONGTYPE', 1, true) then
    -- Any other error ends the script.
    return redis.call('HMGET', key, ...)
  end
end

-- Worker id, token, epoch, holder, lane, marks, whether the row is free, heartbeat, expiry; nothing
-- where there is no row. An expiry that is no number is returned for the complaint.
local function row_fields(key, worker)
  local fields = redis.call('HMGET', key, 'token', 'holder', 'lane', 'marks', 'heartbeat_at',
    'expires_at', 'epoch')
  if not fields[1] and redis.call('EXISTS', key) == 0 then
    return nil
  end
  local free, expiry = fields[6], tonumber(fields[6] or '')
  if expiry then
    free = expiry <= tonumber(now) and '1' or '0'
  end
  return { worker, fields[1], fields[7], fields[2], fields[3], fields[4], free, fields[5],
    fields[6] }
end

-- name: create_record
-- KEYS: layout record. ARGV: token, words, complete, since tick, first tick, identity, epoch,
-- history.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'words', ARGV[2], 'complete', ARGV[3],
    'since_tick', ARGV[4], 'first_tick', ARGV[5], 'identity', ARGV[6], 'epoch', ARGV[7],
    'history', ARGV[8], 'created_at', now)
end
return record_fields(KEYS[1])

-- name: read_record
-- KEYS: layout record.
return record_fields(KEYS[1])

-- name: swap_record
-- KEYS: layout record. ARGV: expected token, token, words, complete, since tick, first tick,
-- identity, epoch, history, 1 if identities are compared.
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] or not continues(ARGV[7], ARGV[10]) then
  return 0
end
redis.call('HSET', KEYS[1], 'token', ARGV[2], 'words', ARGV[3], 'complete', ARGV[4],
  'since_tick', ARGV[5], 'first_tick', ARGV[6], 'identity', ARGV[7], 'epoch', ARGV[8],
  'history', ARGV[9])
return 1

-- name: create_rows
-- KEYS: layout record, scopes, workers, unused, expiry.
-- ARGV: prefix of rows, scope, marks, token of the record, latest time, 1 if
-- identities are compared, worker ids with tokens.
-- A key of another type fails here, before anything is written.
redis.call('SCARD', KEYS[2])
for index = 3, 5 do
  redis.call('ZCARD', KEYS[index])
end
local record = record_fields(KEYS[1])
local holds = record[1] == ARGV[4] and tonumber(now) <= tonumber(ARGV[5])
  and continues(record[6], ARGV[6])
redis.call('SADD', KEYS[2], ARGV[2])
-- A set may have lost members of rows that exist. `free_rows` repairs the unused set.
for index = 7, #ARGV, 2 do
  local worker = ARGV[index]
  local row = ARGV[1] .. worker
  if redis.call('EXISTS', row) == 0 then
    if not holds then
      return 0
    end
    redis.call('HSET', row, 'token', ARGV[index + 1], 'epoch', unused, 'holder', '', 'lane', '0',
      'marks', ARGV[3], 'heartbeat_at', '0', 'expires_at', '0', 'created_at', now, 'updated_at', now)
    redis.call('ZADD', KEYS[4], '0', worker)
    redis.call('ZADD', KEYS[5], '0', worker)
  end
  redis.call('ZADD', KEYS[3], '0', worker)
end
return 1

-- name: survey
-- KEYS: layout record, workers, expiry. ARGV: smallest and largest worker id, 1 if identities are
-- compared.
local held, next_expiry = 0, ''
local found = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. now, '+inf', 'WITHSCORES')
for index = 1, #found, 2 do
  if found[index] >= ARGV[1] and found[index] <= ARGV[2] then
    held = held + 1
    if next_expiry == '' then
      next_expiry = string.format('%.0f', tonumber(found[index + 1]))
    end
  end
end
local workers = redis.call('ZLEXCOUNT', KEYS[2], '[' .. ARGV[1], '[' .. ARGV[2])
return { now, server(ARGV[3]), held, workers - held, next_expiry, record_fields(KEYS[1]) }

-- name: unreleased_rows
-- KEYS: scopes, layout record. ARGV: namespace, the prefixes of the keys of its rows, expiry sets
-- and unused sets, limit.
-- The scopes may have lost a member: the record lists each reserved key whose rows were created.
-- A row that either set calls written says itself whether it was released, since a member of the
-- expiry set may be lost or have another score. The sets decide about members that have no row. A
-- row that is no hash counts as one that was last renewed in 1970.
local rows, limit = {}, tonumber(ARGV[5])
local function precedes(one, other)
  if one[3] ~= other[3] then
    return one[3] > other[3]
  elseif one[2] ~= other[2] then
    return one[2] < other[2]
  end
  return one[1] < other[1]
end
local reserved_keys = {}
for _, scope in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local reserved_key, namespace = string.match(scope, '^([^ ]*) (.*)$')
  if namespace == ARGV[1] then
    reserved_keys[reserved_key] = true
  end
end
local complete = unpack(hash_fields(KEYS[2], 'complete') or {})
for reserved_key in string.gmatch(complete or '', '([^,:]+)[^,]*') do
  reserved_keys[reserved_key] = true
end
for reserved_key in pairs(reserved_keys) do
  local is_known, expiries, last_uses = {}, ARGV[3] .. reserved_key, ARGV[4] .. reserved_key
  local prefix = ARGV[2] .. reserved_key .. ':'
  local function look_at(worker)
    local row = prefix .. worker
    local heartbeat, expires = unpack(hash_fields(row, 'heartbeat_at', 'expires_at') or {})
    if not expires and redis.call('EXISTS', row) == 0 then
      heartbeat = redis.call('ZSCORE', last_uses, worker)
      expires = redis.call('ZSCORE', expiries, worker) or '0'
    end
    -- A release writes exactly 1970.
    if expires ~= '0' then
      -- Some doubles are no 64-bit integer: those count as 1970, or as the year 9999.
      heartbeat = math.max(0, math.min(tonumber(heartbeat or '') or 0, 253402300799999))
      local found = { reserved_key, worker, heartbeat }
      if limit > 1 then
        table.insert(rows, found)
      elseif not rows[1] or precedes(found, rows[1]) then
        rows[1] = found
      end
    end
  end
  for _, set in ipairs({ expiries, last_uses }) do
    for _, range in ipairs({ { '-inf', '(0' }, { '(0', '+inf' } }) do
      for _, worker in ipairs(redis.call('ZRANGEBYSCORE', set, range[1], range[2])) do
        -- Both sets have most rows, and each is read once.
        if not is_known[worker] then
          is_known[worker] = true
          look_at(worker)
        end
      end
    end
  end
end
table.sort(rows, precedes)
local newest = {}
for index = 1, math.min(#rows, limit) do
  local reserved_key, worker, heartbeat = unpack(rows[index])
  table.insert(newest, { reserved_key, worker, string.format('%.0f', heartbeat) })
end
return newest

-- name: free_rows
-- KEYS: unused, workers.
-- ARGV: prefix of rows, smallest and largest worker id, limit, holder if only its rows count.
-- A row that the unused set has lost is put back there first.
-- A row says itself whether it is free, since a member of the expiry set may be lost or have
-- another score. An expiry that is no number and a row that is no hash are returned for the
-- complaint, beyond the limit.
if redis.call('ZCARD', KEYS[1]) < redis.call('ZCARD', KEYS[2]) then
  for _, worker in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    local row = ARGV[1] .. worker
    if not redis.call('ZSCORE', KEYS[1], worker) and redis.call('EXISTS', row) == 1 then
      local heartbeat = unpack(hash_fields(row, 'heartbeat_at') or {})
      redis.call('ZADD', KEYS[1], string.match(heartbeat or '', '^%d+$') or '0', worker)
    end
  end
end
local rows, start, left, holder = {}, 0, tonumber(ARGV[4]), ARGV[5]
local range, present = holder and 'ZREVRANGE' or 'ZRANGE', tonumber(now)
while left > 0 do
  local workers = redis.call(range, KEYS[1], start, start + 999)
  if #workers == 0 then
    break
  end
  start = start + 1000
  for _, worker in ipairs(workers) do
    if left > 0 and worker >= ARGV[2] and worker <= ARGV[3] then
      local row = ARGV[1] .. worker
      -- The other fields are read afterwards, since most rows may be held.
      local fields = hash_fields(row, 'expires_at', 'holder')
      if not fields then
        table.insert(rows, not holder and { worker } or nil)
      elseif not holder or fields[2] == holder then
        local expiry = tonumber(fields[1] or '')
        if not expiry or expiry <= present then
          table.insert(rows, row_fields(row, worker))
          left = expiry and left - 1 or left
        end
      end
    end
  end
end
return rows

-- name: read_row
-- KEYS: row. ARGV: worker id.
return { row_fields(KEYS[1], ARGV[1]) }

-- name: list_rows
-- KEYS: workers. ARGV: prefix of rows.
local rows = {}
for _, worker in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  table.insert(rows, row_fields(ARGV[1] .. worker, worker))
end
return rows

-- name: swap_row
-- KEYS: row, unused, expiry, layout record, workers, scopes.
-- ARGV: worker id, expected token, token, holder, lane, marks, milliseconds or nothing, epoch,
-- 1 if identities are compared, scope.
-- A key of another type fails here, before anything is written.
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', KEYS[3])
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[2]
  or not in_epoch(KEYS[4], ARGV[8], ARGV[9]) then
  return 0
end
local expires = '0'
if ARGV[7] ~= '' then
  expires = string.format('%.0f', tonumber(now) + tonumber(ARGV[7]))
end
redis.call('HSET', KEYS[1], 'token', ARGV[3], 'epoch', ARGV[8], 'holder', ARGV[4], 'lane', ARGV[5],
  'marks', ARGV[6], 'heartbeat_at', now, 'expires_at', expires, 'updated_at', now)
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('ZADD', KEYS[3], expires, ARGV[1])
-- These two may have lost the row. A key of another type must not stop renewals.
redis.pcall('ZADD', KEYS[5], '0', ARGV[1])
redis.pcall('SADD', KEYS[6], ARGV[10])
return 1

-- name: create_segments
-- KEYS: names of all codes. ARGV: prefix of codes, prefix of names, token, then code and number, …
-- A key of another type fails here, before anything is written.
redis.call('ZCARD', KEYS[1])
for index = 4, #ARGV, 2 do
  local code = ARGV[1] .. ARGV[index]
  if redis.call('EXISTS', code) == 0 then
    redis.call('HSET', code, 'next', ARGV[index + 1], 'step', '0', 'token', ARGV[3],
      'epoch', unused, 'created_at', now, 'updated_at', now)
  end
  redis.call('ZADD', KEYS[1], 0, ARGV[2] .. ARGV[index])
end

-- name: write_managed_code
-- KEYS: settings of a namespace's codes. ARGV: code, expected token or nothing, token, settings.
local present = redis.call('HGET', KEYS[1], ARGV[1])
if (present and string.sub(present, 1, 32) or '') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. ' ' .. ARGV[4])
return 1

-- name: count_segments
-- KEYS: names of all codes. ARGV: bounds of the names.
return redis.call('ZLEXCOUNT', KEYS[1], ARGV[1], ARGV[2])

-- name: segments
-- KEYS: names of all codes. ARGV: segment table, bounds of the names (of ZRANGEBYLEX), limit.
local rows, from, limit = {}, ARGV[2], tonumber(ARGV[4])
repeat
  local names = redis.call('ZRANGEBYLEX', KEYS[1], from, ARGV[3], 'LIMIT', 0, limit - #rows)
  for _, name in ipairs(names) do
    local namespace, code = string.match(name, '^(%S+) (.*)$')
    local prefix = ARGV[1] .. ':{' .. (namespace or '') .. '}:'
    local key = prefix .. 'code:' .. (code or '')
    -- An operator may have deleted the code and not its name.
    if redis.call('EXISTS', key) == 1 then
      local fields = redis.call('HMGET', key, 'next', 'step', 'updated_at', 'created_at', 'epoch')
      local managed = redis.call('HGET', prefix .. 'settings', code)
      local settings = managed and string.match(managed, ' (.*)$')
      table.insert(rows, { namespace, code, fields[1], fields[2], fields[3], fields[4], fields[5],
        settings })
    end
    from = '(' .. name
  end
until #names == 0 or #rows == limit
return rows

-- name: reserve
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

-- name: read_segments
-- KEYS: layout record, codes. ARGV: epoch, 1 if identities are compared. An answer for each code.
local is_in_epoch, answers = in_epoch(KEYS[1], ARGV[1], ARGV[2]), {}
for at = 2, #KEYS do
  if not is_in_epoch then
    answers[at - 1] = { 'other epoch' }
  elseif redis.call('EXISTS', KEYS[at]) == 0 then
    answers[at - 1] = { 'no such code' }
  else
    local row = redis.call('HMGET', KEYS[at], 'next', 'step', 'epoch')
    answers[at - 1] = { 'row', row[1], row[2], row[3] }
  end
end
return answers

-- name: give_back
-- KEYS: code, layout record. ARGV: token of the reservation, from, token, epoch, 1 if identities
-- are compared.
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] or not in_epoch(KEYS[2], ARGV[4], ARGV[5]) then
  return 0
end
redis.call('HSET', KEYS[1], 'next', ARGV[2], 'token', ARGV[3], 'updated_at', now)
return 1

-- name: undo
-- KEYS: code, layout record. ARGV: token of the reservation, by, token, epoch, 1 if identities are
-- compared. Redis subtracts the numbers, because those of Lua are doubles.
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] or not in_epoch(KEYS[2], ARGV[4], ARGV[5]) then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'next', '-' .. ARGV[2])
redis.call('HSET', KEYS[1], 'token', ARGV[3], 'updated_at', now)
return 1

-- name: claim_keys
-- KEYS: idempotency keys. ARGV: owner, patience in ms, ms until a new key expires. For each key:
-- whether it is the owner's, and its text.
local answers = {}
for at, key in ipairs(KEYS) do
  local fields = redis.call('HMGET', key, 'owner', 'text', 'claimed_at')
  local text = fields[2] or ''
  if not fields[1] then
    redis.call('HSET', key, 'owner', ARGV[1], 'text', '', 'claimed_at', now)
    redis.call('PEXPIRE', key, ARGV[3])
    fields[1] = ARGV[1]
  elseif text == '' and fields[1] ~= ARGV[1]
    and (tonumber(fields[3]) or 0) + tonumber(ARGV[2]) < tonumber(now) then
    redis.call('HSET', key, 'owner', ARGV[1], 'claimed_at', now)
    fields[1] = ARGV[1]
  end
  answers[at] = { fields[1] == ARGV[1] and 1 or 0, text }
end
return answers

-- name: finish_keys
-- KEYS: idempotency keys. ARGV: owner, the text of each key. For each key: whether it is the
-- owner's, and its text.
local answers = {}
for at, key in ipairs(KEYS) do
  local fields = redis.call('HMGET', key, 'owner', 'text')
  local text = fields[2] or ''
  if fields[1] == ARGV[1] and text == '' then
    text = ARGV[1 + at]
    redis.call('HSET', key, 'text', text)
  end
  answers[at] = { fields[1] == ARGV[1] and 1 or 0, text }
end
return answers
