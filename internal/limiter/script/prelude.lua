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

local function ceil_div(a, b)
  return -floor(-a / b)
end

-- A random number in [0, 1) that the caller drew, for algorithms that need one:
-- the same call must give the same answer here and in the model.
local draw = 0

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

-- The TTL in milliseconds of a key that is needed for so many microseconds: one
-- millisecond longer, because TIME may be a moment ahead of the clock that
-- expiry goes by, and never more than about 150 years, which every server takes.
local function ttl_of(micros)
  return min(ceil_div(micros, 1000) + 1, 5e12)
end

-- Microseconds that the key still lives, at least `need` of them: an edit may make
-- a state last longer than the TTL it was given. A peek leaves the TTL as it is.
local function keep_alive(entry, key, need)
  local left = (call('PTTL', key) + 1) * 1000
  if left >= need or left > 0 and entry.peek then return left end
  if not entry.peek then call('PEXPIRE', key, ttl_of(need)) end
  return need
end

-- By the code that Go's Algorithm gives it. Each entry has
--   read(entry, limit)           loads the state, sets limit.used (units held now);
--                                may set limit.fits, else used + cost <= quota says it
--   spend(entry, limit, passes)  records entry.cost, updates limit.used; passes says
--                                whether the check is admitted by everybody
--   time_to_fit(entry, limit)            microseconds until entry.cost fits; 0 if it does now
--   used_after(entry, limit, wait)  units held after that many microseconds
--   reset_after(entry, limit)           microseconds until limit.used is 0
--   receipt(entry, limit)        what refund needs to find what spend recorded; optional
--   refund(entry, limit, receipt)  takes back what spend recorded
--   observes                     spend is called for every unblocked check
local algorithms = {}
