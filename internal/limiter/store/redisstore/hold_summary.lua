-- The summary of the holds of a key, see hold.lua.

local function set_of(entry)
  return entry.holds_key .. ':set'
end

-- The TTL in milliseconds of the holds. The keys that are kept together must also expire
-- together, whenever they were written.
local function holds_ttl(entry)
  return ceil_div(entry.until_time, 1000) + 1 - floor(server_time() / 1000)
end

-- The TTL in milliseconds of a state that is needed for `micros` microseconds, and as long as the
-- holds, of which there must be some.
function holds.ttl_of(entry, micros)
  return max(ttl_of(micros), holds_ttl(entry))
end

local function drop_holds(entry)
  entry.held_units, entry.open_holds = 0, 0
  if not values[entry.holds_key] then return end
  delete_value(entry.holds_key)
  if not entry.packed then call('DEL', set_of(entry)) end
end

-- Reads the summary of the holds.
local function read_summary(entry)
  entry.held_units, entry.open_holds, entry.packed, entry.windows = 0, 0, nil, {}
  local value = values[entry.holds_key]
  if not value then return end
  local summary = { cmsgpack.unpack(value) }
  entry.held_units, entry.open_holds, entry.earliest, entry.until_time = unpack(summary, 1, 4)
  local first_hold = 7 + 2 * summary[6]
  entry.packed = not summary[5] and { unpack(summary, first_hold) }
  entry.windows = { unpack(summary, 7, first_hold - 1) }
  if entry.until_time <= server_time() then drop_holds(entry) end
end

-- Reads the holds of the entry's key, and the ID in its call arguments.
function holds.read(entry)
  entry.outcome, entry.estimate, entry.settled, entry.debt_cut = HOLD_NONE, 0, 0, 0
  entry.holds_changed = false
  if entry.holds_key then read_summary(entry) end
  local action = entry.action
  if action ~= ACTION_CHECK and action ~= ACTION_CHARGE then entry.id = next_call_string() end
end

-- Whether a window that ends with the millisecond `last` ends after a hold, or may end after a later hold.
local function may_end_after_a_hold(entry, last)
  return last * 1000 + 999 >= min(entry.earliest, server_time())
end

-- The values in MessagePack, one after the other. To pack them as an array, and to drop its header, takes
-- less time than to pack several values.
local function pack_each(values)
  return string.sub(cmsgpack.pack(values), #values < 16 and 2 or 4)
end

-- Writes the summary.
function holds.write(entry)
  entry.holds_changed = false
  if entry.open_holds == 0 then return drop_holds(entry) end
  local summary = { entry.held_units, entry.open_holds, entry.earliest, entry.until_time, not entry.packed, 0 }
  local windows = entry.windows
  for i = 1, #windows, 2 do
    if may_end_after_a_hold(entry, windows[i + 1]) then
      summary[6], summary[#summary + 1], summary[#summary + 2] = summary[6] + 1, windows[i], windows[i + 1]
    end
  end
  for _, value in ipairs(entry.packed or {}) do summary[#summary + 1] = value end
  set_value(entry.holds_key, pack_each(summary), holds_ttl(entry))
end

-- Microseconds until the last hold ends, at the latest.
function holds.last_end(entry)
  return entry.until_time - entry.keep_after_end - server_time()
end

-- Whether only holds keep the limit from admitting the cost.
function holds.waits(entry, limit)
  return entry.held_units > 0 and not limit.admits and limit.used + entry.cost <= limit.quota
end

-- Appends the outcome of the hold, and the holds of the key, to the reply.
function holds.report(entry, reply, n)
  reply[n + 1], reply[n + 2] = entry.outcome, entry.estimate
  reply[n + 3], reply[n + 4] = entry.held_units, entry.open_holds
  reply[n + 5], reply[n + 6] = entry.settled, entry.debt_cut
  return n + 6
end
