-- report: records when policies and targets were last reported.
--
-- KEYS     1 sorted set of the reports
-- ARGV     1 how long a report counts in milliseconds, 2 the most members, then the members
-- returns  nothing
-- clock    TIME
-- writes   the members with the time; deletes old ones, and the oldest ones beyond the most

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local life, most = tonumber(ARGV[1]), tonumber(ARGV[2])
for i = 3, #ARGV do
  redis.call('ZADD', KEYS[1], now, ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - life)
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -most - 1)
redis.call('PEXPIRE', KEYS[1], life)
