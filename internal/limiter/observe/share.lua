-- share: stores the part of a replica, if it has one, and returns what readers look at.
--
-- KEYS     1 hash of the parts, 2 sorted set of the scopes by the millisecond until which replicas share them
-- ARGV     1 replica, 2 its part or '', 3 lifetime of the parts in milliseconds
-- returns  the scopes
-- clock    TIME

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%d:', now) .. ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return redis.call('ZRANGEBYSCORE', KEYS[2], now, '+inf')
