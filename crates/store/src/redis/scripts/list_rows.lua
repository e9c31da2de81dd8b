-- KEYS: workers. ARGV: prefix of rows.
local rows = {}
for _, worker in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  table.insert(rows, row_fields(ARGV[1] .. worker, worker))
end
return rows
