-- KEYS: workers. ARGV: prefix of rows.
local rows = {}
for _, worker in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local row = ARGV[1] .. worker
  if redis.call('EXISTS', row) == 1 then
    table.insert(rows, { worker, unpack(redis.call('HMGET', row, 'token', 'holder', 'lane',
      'marks', 'heartbeat_at', 'expires_at')) })
  end
end
return { now, rows }
