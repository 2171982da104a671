-- prelude: cursors over KEYS and ARGV, the values of keys and the table of algorithms, for the
-- general path.

local band = bit.band

-- The TTL of a key that exists for `millis` milliseconds. Redis keeps a key until the end of the
-- millisecond in which its TTL is 0, and has no shorter TTL than 1.
local function exact_ttl(millis)
  return max(millis - 1, 1)
end

-- key_at is the cursor over the keys, arg_at the cursor over the arguments that all calls of a run share,
-- call_arg_at the cursor over the arguments of one call.
local key_at, arg_at, call_arg_at = 0, 0, 0

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

local function next_call_string()
  call_arg_at = call_arg_at + 1
  return ARGV[call_arg_at]
end

local function next_call_number()
  return tonumber(next_call_string())
end

-- The values of string keys, read by one MGET for all calls of a run and kept up to date
-- by this script; false for a missing key and for a key of another type.
local values = {}

-- Reads the values of KEYS[first] to KEYS[last].
local function load_values(first, last)
  local loaded = call('MGET', unpack(KEYS, first, last))
  for i = first, last do values[KEYS[i]] = loaded[i - first + 1] end
end

-- The keys with values that are not states of limits. They count as missing.
local damaged = {}

-- The writes of values, by key, in a run whose calls all have the same keys: they are made
-- once, at the end of the run. Nil in other runs, which write at once.
local deferred

-- The logs, by key, that the calls of such a run have opened.
local logs = {}

-- The deferred write of the key; the first one records whether the key exists.
local function deferred_write(key)
  local write = deferred[key]
  if not write then
    write = { exists = values[key] ~= false, added = 0 }
    deferred[key] = write
  end
  return write
end

local function mark_repaired(key)
  if damaged[key] then damaged[key], repaired = nil, true end
end

-- Writes the value of a key for `ttl` milliseconds; if `expires_at`, in milliseconds since
-- 1970, is given, exactly until then.
local function set_value(key, value, ttl, expires_at)
  mark_repaired(key)
  if deferred then
    local write = deferred_write(key)
    write.value, write.ttl, write.expires_at = value, ttl, expires_at
  else
    write_value(key, values[key], value, ttl, expires_at)
  end
  values[key] = value
end

-- Adds units to the number of a key that exists. Returns the sum.
local function add_to_value(key, units)
  if not deferred then
    values[key] = call('INCRBY', key, string.format('%d', units)) -- faster than a number
    return values[key]
  end
  local write = deferred_write(key)
  if write.value then write.value = write.value + units else write.added = write.added + units end
  values[key] = values[key] + units
  return values[key]
end

-- Makes the deferred writes.
local function write_deferred()
  for key, write in pairs(deferred) do
    if write.value then
      write_value(key, write.exists, write.value, write.ttl, write.expires_at)
    elseif write.added > 0 then
      call('INCRBY', key, write.added)
    end
  end
end

-- The TTL of a key in milliseconds, as PTTL returns it.
local function time_left(key)
  local write = deferred and deferred[key]
  return write and write.ttl or call('PTTL', key)
end

-- Sets the TTL of a key.
local function set_time_left(key, ttl)
  local write = deferred and deferred[key]
  if write and write.ttl then write.ttl = ttl else call('PEXPIRE', key, ttl) end
end

local function delete_value(key)
  mark_repaired(key)
  if deferred then deferred[key] = nil end
  call('DEL', key)
  values[key] = false
end

-- A random number in [0, 1), drawn by the caller so that the script and the model
-- give the same reply to the same call.
local draw = 0

-- Microseconds until the key expires. Extends the TTL to `need` microseconds if it
-- is shorter, as it can be after an edit; a peek leaves the TTL unchanged.
local function keep_alive(entry, key, need)
  local left = (time_left(key) + 1) * 1000
  if left >= need or left > 0 and entry.peek then return left end
  if not entry.peek then set_time_left(key, ttl_of(need)) end
  return need
end

-- holds has the functions of hold.lua, once an entry has needed them. new_holds makes them, in a program with hold.lua.
local holds, new_holds

-- The algorithms, by the code of Go's Algorithm. Each file adds its own, with
--   prepare(limit)                  reads the arguments of the algorithm; optional
--   read(entry, limit)              reads the state, sets limit.used (spent units);
--                                   may set limit.admits, whose default is
--                                   used + units of holds + cost <= quota
--   spend(entry, limit, passes)     records entry.cost and updates limit.used; passes
--                                   is true if the entry and the check are admitted.
--                                   The cost of a commit or a charge may exceed the quota.
--                                   Missing if the algorithm has no state
--   settle(entry, limit, units, at, i)
--                                   records the units of ended hold i of an entry, as of
--                                   the microsecond `at`, or of the state if it is later
--   end_settling(entry, limit)      stores what the calls of settle changed and updates
--                                   limit.used; optional
--   keep(entry, limit)              keeps what settle needs as long as the last hold;
--                                   optional
--   time_to_fit(entry, limit)       microseconds until entry.cost fits; 0 if it fits now
--   used_after(entry, limit, wait)  spent units after `wait` microseconds
--   reset_after(entry, limit)       microseconds until limit.used is 0
--   receipt(entry, limit)           a number with which refund finds what spend
--                                   recorded; optional
--   refund(entry, limit, receipt)   reverts what spend recorded
--   after_last(entry, limit, wait)  microseconds until nothing is used, at the latest, if all
--                                   holds are spent as the last one ends; wait is what
--                                   reset_after returned
--   observes                        if true, spend is called for every unblocked check
local algorithms = {}
