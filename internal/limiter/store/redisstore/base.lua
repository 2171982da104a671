-- base: what every script starts with. It and the fast path define only what most checks need: for each call of a
-- script, Redis creates all its functions and the variables that they use.

local call, try_call, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV

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
--   counts_from_first      true if the first unit that is spent starts a window
--   spend(limit, key, cost, text, least_ttl)
--                          adds the cost, also given as text, to the state that was just read, which must last
--                          least_ttl milliseconds, if that is given and the state refills; returns
--                          the units that are used now, the microseconds until none are, and the new value
--   wait(limit, key, cost) the microseconds until the cost fits, the units that are used then, and
--                          the microseconds until none are; nil leaves the call to the general path
local fast = {}

local fast_check_beside_holds -- of hold_fast.lua, in scripts for policies that keep holds
