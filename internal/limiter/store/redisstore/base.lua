-- base: what every script starts with.

local call, try_call, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local floor, max, min, band = math.floor, math.max, math.min, bit.band

local function ceil_div(a, b)
  return -floor(-a / b)
end

-- Above this the units of a counter or a log do not grow, so that they stay an integer of a double.
local LARGEST_SUM = 2 ^ 52

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

-- The TTL of a key that exists for `millis` milliseconds. Redis keeps a key until the end of the
-- millisecond in which its TTL is 0, and has no shorter TTL than 1.
local function exact_ttl(millis)
  return max(millis - 1, 1)
end

-- True after this script has replaced a value that was not a state of a limit, until a reply reports it.
local repaired = false

-- Writes the value of a key for `ttl` milliseconds or, if `expires_at` is given, until then, in milliseconds since
-- 1970. `exists` is false for a missing key and for a key of another type. SET with NX and GET replies false after it
-- has written a missing key, which takes Redis less time than OK. For a key of another type it replies an error;
-- the value then replaces the key.
local function write_value(key, exists, value, ttl, expires_at)
  local option, time = 'PX', ttl
  if expires_at then option, time = 'PXAT', expires_at end
  if exists then
    call('SET', key, value, option, time)
  else
    local other_type = try_call('SET', key, value, option, time, 'NX', 'GET')
    if not other_type then return end
    call('SET', key, value, option, time)
    repaired = true
  end
end

local function error_text(err)
  return type(err) == 'table' and err.err or tostring(err)
end

-- The algorithms that fast.lua knows, by their code. Their files add
--   prepare(limit, at)     reads the arguments after ARGV[at]; returns where they end
--   read(limit, value, key)
--                          returns the units that are used, by the key and its value, and sets
--                          limit.exists; nil leaves the call to the general path
--   starts(limit)          whether a spend would start a window, if the algorithm has windows with a start
--   spend(limit, key, cost, text, least_ttl)
--                          adds the cost, also given as text, to the state that was just read, which must last
--                          least_ttl milliseconds, if that is given and the state refills; returns
--                          the units that are used now, the microseconds until none are, and the new value
--   wait(limit, key, cost) the microseconds until the cost fits, the units that are used then, and
--                          the microseconds until none are; nil leaves the call to the general path
local fast = {}
