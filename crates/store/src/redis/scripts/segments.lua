-- KEYS: names of all codes. ARGV: segment table, bounds of the names (of ZRANGEBYLEX), limit.
local rows, from, limit = {}, ARGV[2], tonumber(ARGV[4])
repeat
  local names = redis.call('ZRANGEBYLEX', KEYS[1], from, ARGV[3], 'LIMIT', 0, limit - #rows)
  for _, name in ipairs(names) do
    local namespace, code = string.match(name, '^(%S+) (.*)$')
    local prefix = ARGV[1] .. ':{' .. (namespace or '') .. '}:'
    local key = prefix .. 'code:' .. (code or '')
    -- Otherwise somebody deleted it.
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
