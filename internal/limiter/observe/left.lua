-- left: returns the parts that ended replicas left.
--
-- KEYS     1 hash of the parts that ended replicas left
-- ARGV     1 how long a part stays in milliseconds
-- returns  {age in milliseconds, part, ...}
-- clock    TIME
-- writes   deletes older parts

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local stored, valid = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #stored, 2 do
  local at, part = string.match(stored[i + 1], '^(%d+):(.*)$')
  if at and at + ARGV[1] > now then
    valid[#valid + 1] = string.format('%d', now - at)
    valid[#valid + 1] = part
  else
    redis.call('HDEL', KEYS[1], stored[i])
  end
end
return valid
