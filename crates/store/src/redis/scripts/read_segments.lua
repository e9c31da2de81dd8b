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
