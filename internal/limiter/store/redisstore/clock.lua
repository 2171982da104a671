-- clock: the functions that read the time of Redis and calculate a TTL from it. A script has this file once, before the
-- first file that calls them.

local floor, max, min = math.floor, math.max, math.min

local function ceil_div(a, b)
  return -floor(-a / b)
end

-- Redis server time in microseconds since 1970, read at most once a script and
-- only if an algorithm needs it.
local clock
local function server_time()
  if not clock then
    local t = call('TIME')
    clock = t[1] * 1000000 + t[2]
  end
  return clock
end

-- The TTL in milliseconds of a key that is needed for `micros` microseconds. It is
-- one millisecond longer, because TIME may be slightly ahead of the clock that
-- Redis uses for expiry, and at most about 150 years, which every server accepts.
local function ttl_of(micros)
  return min(ceil_div(micros, 1000) + 1, 5e12)
end
