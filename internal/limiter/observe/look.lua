-- look: records that a reader looks at a scope, and returns the parts of the replicas.
--
-- KEYS     as in share.lua
-- ARGV     1 scope, 2 how long the replicas share it, 3 how long a part is valid, in milliseconds
-- returns  {replica, part, ...}
-- clock    TIME
-- writes   deletes parts that are not valid any more

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
local stored, valid = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #stored, 2 do
  local at, part = string.match(stored[i + 1], '^(%d+):(.*)$')
  if at and at + ARGV[3] > now then
    valid[#valid + 1] = stored[i]
    valid[#valid + 1] = part
  else
    redis.call('HDEL', KEYS[1], stored[i])
  end
end
return valid
