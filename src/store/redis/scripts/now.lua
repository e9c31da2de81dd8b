-- The server's clock in whole milliseconds, as text: numbers of Lua are doubles, and some are
-- written with an exponent.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
