-- Settles the holds that have ended, see hold.lua.

-- The key that remembers the ID of a charge.
local function charge_of(entry, id)
  return string.sub(entry.holds_key, 1, -#'held' - 1) .. 'charge!' .. id
end

-- The TTL in milliseconds of the key that remembers a charge. The IDs of streams of Envoy are kept for less time.
local function charge_ttl(key)
  return exact_ttl(string.find(key, HOLD_STREAM_NAME, 1, true) and HOLD_STREAM_MEMORY or HOLD_CHARGE_MEMORY)
end

-- Lists the first holds that have ended, in the order of their ends: id, units, end.
local function ended_holds(entry)
  local ended, now = {}, server_time()
  if entry.packed then
    for i = 1, #entry.packed, 3 do
      local id, units, ends = unpack(entry.packed, i, i + 2)
      if ends <= now then ended[#ended + 1] = { id, units, ends } end
    end
    table.sort(ended, function(a, b) return a[3] < b[3] or a[3] == b[3] and a[1] < b[1] end)
    for i = #ended, HOLD_MOST_SETTLED + 1, -1 do ended[i] = nil end
    return ended
  end
  local found = call('ZRANGEBYSCORE', set_of(entry), 1, now, 'WITHSCORES', 'LIMIT', 0, HOLD_MOST_SETTLED)
  local members = {}
  for i = 1, #found, 2 do
    local id = string.sub(found[i], 3)
    members[#members + 1] = 'u:' .. id
    ended[#ended + 1] = { id, 0, tonumber(found[i + 1]) }
  end
  local units = #ended > 0 and call('ZMSCORE', set_of(entry), unpack(members))
  for i = 1, #ended do ended[i][2] = -tonumber(units[i] or 0) end
  return ended
end

-- When the first of the holds ends; nil without holds.
local function first_end(entry)
  local packed = entry.packed
  if not packed then
    local score = call('ZRANGEBYSCORE', set_of(entry), 1, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    return tonumber(score)
  end
  local first = packed[3]
  for i = 6, #packed, 3 do first = min(first, packed[i]) end
  return first
end

-- Spends the holds that have ended. Returns whether there were any.
function holds.settle(entry)
  if not entry.settles or entry.earliest > server_time() then return false end
  local ended = ended_holds(entry)
  for i, hold in ipairs(ended) do
    local id, units, ends = unpack(hold)
    remove_hold(entry, id, units)
    local charge_key = charge_of(entry, id)
    call('SET', charge_key, '', 'PX', charge_ttl(charge_key))
    for _, limit in ipairs(entry.limits) do limit.algorithm.settle(entry, limit, units, ends, i) end
  end
  entry.settled = #ended
  for _, limit in ipairs(entry.limits) do
    local end_settling = limit.algorithm.end_settling
    if #ended > 0 and end_settling then end_settling(entry, limit) end
  end
  entry.earliest = first_end(entry)
  if not entry.earliest then entry.held_units, entry.open_holds = 0, 0 end
  holds.write(entry)
  return #ended > 0
end
