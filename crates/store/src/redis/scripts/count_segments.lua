-- KEYS: names of all codes. ARGV: bounds of the names.
return redis.call('ZLEXCOUNT', KEYS[1], ARGV[1], ARGV[2])
