-- One hold: in the list of the summary or in the set, see hold.lua.

local LARGEST_LIST = 16

-- Where a hold begins in the list of the summary; nil if it is not there.
local function place_of(entry, id)
  local packed = entry.packed
  for i = 1, #packed, 3 do
    if packed[i] == id then return i end
  end
end

-- Returns the units and the end of a hold, or nil.
local function get_hold(entry, id)
  if entry.packed then
    local i = place_of(entry, id)
    if i then return entry.packed[i + 1], entry.packed[i + 2] end
    return nil
  end
  local found = call('ZMSCORE', set_of(entry), 'u:' .. id, 'e:' .. id)
  if found[1] then return -tonumber(found[1]), tonumber(found[2]) end
end

local function put_in_set(entry, id, units, ends)
  call('ZADD', set_of(entry), ends, 'e:' .. id, -units, 'u:' .. id)
end

-- Moves the holds of the summary to a set.
local function use_set(entry)
  local packed = entry.packed
  entry.packed = false
  for i = 1, #packed, 3 do put_in_set(entry, packed[i], packed[i + 1], packed[i + 2]) end
  call('PEXPIRE', set_of(entry), holds_ttl(entry))
end

-- Adds a hold.
local function put_hold(entry, id, units, ends)
  local packed = entry.packed
  if packed and #packed >= 3 * LARGEST_LIST then use_set(entry) end
  if not entry.packed then return put_in_set(entry, id, units, ends) end
  local n = #packed
  packed[n + 1], packed[n + 2], packed[n + 3] = id, units, ends
end

-- Removes a hold that is there.
local function remove_hold(entry, id, units)
  entry.held_units, entry.open_holds = max(0, entry.held_units - units), max(0, entry.open_holds - 1)
  local packed = entry.packed
  if not packed then
    call('ZREM', set_of(entry), 'e:' .. id, 'u:' .. id)
    return
  end
  local i, last = place_of(entry, id), #packed - 2
  for column = 0, 2 do
    packed[i + column] = packed[last + column]
    packed[last + column] = nil
  end
end
