-- KEYS: code, layout record. ARGV: epoch, 1 if identities are compared.
if not in_epoch(KEYS[2], ARGV[1], ARGV[2]) then
  return { 'other epoch' }
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { 'no such code' }
end
local row = redis.call('HMGET', KEYS[1], 'next', 'step', 'epoch')
return { 'row', row[1], row[2], row[3] }
