-- blocks: adds blocks of one policy to its list.
--
-- KEYS     the list: a sorted set of keys, by the millisecond of server time when the block ends
-- ARGV     most members; then of each block the key and the milliseconds left
-- returns  an empty array
-- clock    TIME
-- writes   the list, which expires with the last of its blocks. Ended blocks are removed and,
--          above most members, those that end first. An end is never moved to an earlier time.

local list, time = KEYS[1], redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #ARGV, 2 do
  redis.call('ZADD', list, 'GT', now + ARGV[i + 1], ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', list, '-inf', now)
redis.call('ZREMRANGEBYRANK', list, 0, -tonumber(ARGV[1]) - 1)
local last = redis.call('ZREVRANGE', list, 0, 0, 'WITHSCORES')[2]
if last then redis.call('PEXPIRE', list, last - now) end
return {}
