-- KEYS: unused, expiry.
-- ARGV: prefix of rows, smallest and largest worker id, limit, holder if only its rows count.
local rows, start, limit, holder = {}, 0, tonumber(ARGV[4]), ARGV[5]
local range = holder and 'ZREVRANGE' or 'ZRANGE'
while #rows < limit do
  local workers = redis.call(range, KEYS[1], start, start + 999)
  if #workers == 0 then
    break
  end
  start = start + 1000
  local expiries = redis.call('ZMSCORE', KEYS[2], unpack(workers))
  for index, worker in ipairs(workers) do
    local is_free = expiries[index] and tonumber(expiries[index]) <= tonumber(now)
    if #rows < limit and is_free and worker >= ARGV[2] and worker <= ARGV[3] then
      local row = ARGV[1] .. worker
      if not holder or redis.call('HGET', row, 'holder') == holder then
        table.insert(rows, row_fields(row, worker))
      end
    end
  end
end
return rows
