-- KEYS: unused, expiry. ARGV: prefix of rows, smallest and largest worker id, holder.
local start = 0
while true do
  local workers = redis.call('ZREVRANGE', KEYS[1], start, start + 999)
  if #workers == 0 then
    return {}
  end
  start = start + 1000
  local expiries = redis.call('ZMSCORE', KEYS[2], unpack(workers))
  for index, worker in ipairs(workers) do
    local is_free = expiries[index] and tonumber(expiries[index]) <= tonumber(now)
    if is_free and worker >= ARGV[2] and worker <= ARGV[3] then
      local row = ARGV[1] .. worker
      if redis.call('HGET', row, 'holder') == ARGV[4] then
        return { row_fields(row, worker) }
      end
    end
  end
end
