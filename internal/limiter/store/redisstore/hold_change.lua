-- Commits, renews, charges and takes slices, see hold.lua. Each action returns whether it spent units or took a slice.

-- Takes a slice of at most the cost.
local function take_slice(entry, is_there)
  local held = entry.held_units
  local left = entry.most_sliced - held
  local units = min(entry.cost, left, max(HOLD_SMALLEST_SLICE, floor(left / 2)))
  for _, limit in ipairs(entry.limits) do
    units = min(units, floor((limit.quota - limit.used - held) / 2))
  end
  if is_there or units < HOLD_SMALLEST_SLICE then
    entry.outcome = HOLD_FULL
    return false
  end
  entry.estimate = units
  holds.take(entry, units)
  return true
end

-- Spends the cost, whatever the limits admit. Returns false if no limit records it.
local function spend_cost(entry)
  local spent = false
  if entry.cost == 0 then return spent end
  local limits = entry.limits
  for i = 1, #limits do
    local spend = limits[i].algorithm.spend
    if spend then
      spend(entry, limits[i], true)
      spent = true
    end
  end
  return spent
end

-- Remembers the ID of a charge, and returns false if it was remembered already.
local function remember(entry)
  return not entry.charge_key or call('SET', entry.charge_key, '', 'PX', charge_ttl(entry.charge_key), 'NX')
end

-- Holds the units of the open hold for another TTL. Spends nothing.
local function renew(entry)
  local ends = extend(entry)
  remove_hold(entry, entry.id, entry.estimate)
  put_hold(entry, entry.id, entry.estimate, ends)
  entry.held_units = entry.held_units + entry.estimate
  return false
end

-- Ends the open hold and spends the cost.
local function commit(entry)
  remove_hold(entry, entry.id, entry.estimate)
  entry.holds_changed = true
  remember(entry)
  return spend_cost(entry)
end

local function missing(entry)
  entry.outcome = HOLD_MISSING
  return false
end

-- Spends the cost, unless a charge with the ID has spent it.
local function charge(entry)
  if remember(entry) then return spend_cost(entry) end
  return missing(entry)
end

-- Commits, renews, charges or takes a slice.
function holds.change(entry)
  local action = entry.action
  if action == ACTION_CHARGE then return charge(entry) end
  local is_open, is_there = find_hold(entry)
  if action == ACTION_SLICE then
    return not is_open and take_slice(entry, is_there or live_block(entry) >= 0)
  end
  if is_open and action == ACTION_RENEW then return renew(entry) end
  if is_open then return commit(entry) end
  if is_there or action == ACTION_COMMIT or action == ACTION_RENEW then return missing(entry) end
  return charge(entry)
end
