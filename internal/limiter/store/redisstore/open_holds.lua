-- open_holds: lists the open holds of a key that end first.
--
-- KEYS     the summary of the holds, and their set; see hold.lua
-- ARGV     the most to list
-- returns  per hold its ID, its units and the microseconds until it ends
-- clock    TIME
-- writes   nothing

local time = redis.call('TIME')
local now, most = time[1] * 1000000 + time[2], tonumber(ARGV[1])
local value = redis.call('GET', KEYS[1])
if not value then return {} end
local summary = { cmsgpack.unpack(value) }
local in_set, first_hold = summary[5], 7 + 2 * summary[6]
local open = {}
if not in_set then
  for i = first_hold, #summary, 3 do open[#open + 1] = { unpack(summary, i, i + 2) } end
  table.sort(open, function(a, b) return a[3] < b[3] or a[3] == b[3] and a[1] < b[1] end)
else
  local found = redis.call('ZRANGEBYSCORE', KEYS[2], now, '+inf', 'WITHSCORES', 'LIMIT', 0, most + 1)
  for i = 1, #found, 2 do
    local id = string.sub(found[i], 3)
    open[#open + 1] = { id, -redis.call('ZSCORE', KEYS[2], 'u:' .. id), tonumber(found[i + 1]) }
  end
end
local list = {}
for _, hold in ipairs(open) do
  if hold[3] > now and #list < 3 * most then
    local n = #list
    list[n + 1], list[n + 2], list[n + 3] = hold[1], hold[2], hold[3] - now
  end
end
return list
