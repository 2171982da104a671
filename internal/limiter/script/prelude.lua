-- prelude: cursors over KEYS and ARGV, and the clock.
-- Every script starts with it; algorithms register themselves in `algorithms`.

local call = redis.call
local floor, max, min = math.floor, math.max, math.min

local key_at, arg_at = 0, 0

local function next_key()
  key_at = key_at + 1
  return KEYS[key_at]
end

local function next_string()
  arg_at = arg_at + 1
  return ARGV[arg_at]
end

local function next_number()
  return tonumber(next_string())
end

-- Redis server time in microseconds since 1970; asked at most once a script,
-- and only by algorithms that need it.
local clock
local function server_time()
  if not clock then
    local t = call('TIME')
    clock = t[1] * 1000000 + t[2]
  end
  return clock
end

-- By the code that Go's Algorithm gives it. Each entry has
--   read(entry, limit)           loads the state, sets limit.used (units held now)
--   spend(entry, limit)          records entry.cost, updates limit.used
--   fit(entry, limit)            microseconds until entry.cost fits; 0 if it does now
--   used_in(entry, limit, wait)  units held after that many microseconds
--   idle(entry, limit)           microseconds until limit.used is 0
local algorithms = {}
