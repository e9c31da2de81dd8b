-- KEYS: unused, expiry. ARGV: prefix of rows, smallest and largest worker id, limit.
local rows, start, limit = {}, 0, tonumber(ARGV[4])
while #rows < limit do
  local workers = redis.call('ZRANGE', KEYS[1], start, start + 999)
  if #workers == 0 then
    break
  end
  start = start + 1000
  local expiries = redis.call('ZMSCORE', KEYS[2], unpack(workers))
  for index, worker in ipairs(workers) do
    local is_free = expiries[index] and tonumber(expiries[index]) <= tonumber(now)
    if #rows < limit and is_free and worker >= ARGV[2] and worker <= ARGV[3] then
      table.insert(rows, row_fields(ARGV[1] .. worker, worker))
    end
  end
end
return rows
