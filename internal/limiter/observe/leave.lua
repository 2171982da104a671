-- leave: stores the last part of a replica that ends, where the others read it.
--
-- KEYS     1 hash of the parts of live replicas, 2 hash of the parts that ended replicas left
-- ARGV     1 replica, 2 field of the part, 3 the part, 4 how long it stays in milliseconds, 5 the most parts
-- returns  nothing
-- clock    TIME
-- writes   deletes the part of the live replica, and the oldest left ones beyond the most

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[2], string.format('%d:', now) .. ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
local stored, ages = redis.call('HGETALL', KEYS[2]), {}
for i = 1, #stored, 2 do
  ages[#ages + 1] = {tonumber(string.match(stored[i + 1], '^%d+')) or 0, stored[i]}
end
table.sort(ages, function(a, b)
  if a[1] ~= b[1] then return a[1] > b[1] end
  return a[2] < b[2]
end)
for i = tonumber(ARGV[5]) + 1, #ages do
  redis.call('HDEL', KEYS[2], ages[i][2])
end
