-- Judges and takes the hold of a reserve, see hold.lua.

-- Finds the hold with the ID of the entry, and sets the outcome if it is open. Returns whether it is open,
-- and whether it is there: an ended hold may not be settled yet.
local function find_hold(entry)
  if entry.open_holds == 0 then return false, false end
  local units, ends = get_hold(entry, entry.id)
  if not units then return false, false end
  if ends <= server_time() then return false, true end
  entry.outcome, entry.estimate = HOLD_FOUND, units
  return true, true
end

-- Returns whether an entry that reserves repeats an earlier one: its hold is open. Denies it if the key has no room
-- for its hold.
function holds.judge_reserve(entry)
  local is_open, is_there = find_hold(entry)
  if is_open then return true end
  if entry.verdict == VERDICT_ADMITTED and (is_there or entry.open_holds >= entry.max_open) then
    entry.verdict, entry.admitted, entry.outcome = VERDICT_DENIED, false, HOLD_FULL
  end
  return false
end

-- Counts a further hold, which ends a TTL from now, and keeps all holds and what settling them
-- needs. Returns this end.
local function extend(entry)
  local ends = server_time() + entry.ttl * 1000
  local until_time = ends + entry.keep_after_end
  if entry.open_holds == 0 then
    entry.earliest, entry.until_time, entry.packed, entry.windows = ends, until_time, {}, {}
  else
    entry.earliest = min(entry.earliest, ends)
    if until_time > entry.until_time then
      entry.until_time = until_time
      if not entry.packed then call('PEXPIRE', set_of(entry), holds_ttl(entry)) end
    end
  end
  entry.open_holds, entry.holds_changed = entry.open_holds + 1, true
  mark_holds(entry, holds_ttl(entry))
  local limits = entry.limits
  for i = 1, #limits do
    local keep = limits[i].algorithm.keep
    if keep then keep(entry, limits[i]) end
  end
  return ends
end

-- Holds the units.
function holds.take(entry, units)
  local ends = extend(entry)
  put_hold(entry, entry.id, units, ends)
  entry.held_units, entry.outcome = entry.held_units + units, HOLD_TAKEN
end
