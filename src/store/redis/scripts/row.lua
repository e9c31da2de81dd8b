-- KEYS: row. ARGV: worker id.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { now, {} }
end
return { now, { { ARGV[1], unpack(redis.call('HMGET', KEYS[1], 'token', 'holder', 'lane',
  'marks', 'heartbeat_at', 'expires_at')) } } }
