-- hold: the holds of a key, which are the estimates of its open reservations, or its slices. While replicas have
-- different plans, a plan that keeps no holds judges and settles the holds of another plan, which mark the key; see block.lua.
--
-- KEYS     per entry that keeps holds, after its block and its list; of another entry with a marked key beside its block
--            held: a summary in MessagePack, one value after the other: units of the holds,
--              number of the holds, a time before which none ends, the time until which they
--              are kept, whether they are in a set, number of windows; per window the name of
--              a FixedWindow limit and the last millisecond of its latest window, if that is
--              after the end of a hold, or still open; and per hold, if they are not in a set, its ID, units
--              and end. Times are microseconds since 1970
--          per entry with the ID of a charge, after all others, the key that remembers it
-- set      of more than 16 holds: a sorted set at the key <held>:set, with two members
--          for each hold, e:<id> with its end and u:<id> with its units below 0. It is in use
--          until the last hold is removed
-- ARGV     per entry that keeps holds, before its limits: keep_after_end (how long a limit needs spent
--          units, ms), the most open holds
--          per entry of one call, after its cost: [ID], by its action
-- clock    TIME, while holds are open
-- cost     SET to take a hold, and at times SET to mark the key; SET or DEL to commit one; in a set also ZADD and PEXPIRE, or
--          ZMSCORE and ZREM
-- kept     until the units of the last hold could not count any more, had they been spent at
--          its end
--
-- The next call for the key, also a peek, first settles the holds that have ended: it spends the estimate of
-- each as of its end.
--   - A call settles the first HOLD_MOST_SETTLED at most. The others stay holds.
--   - If a state has changed since the end of a hold, the hold counts as of this change, since the time of a
--     key never goes back.
--   - The ID is remembered like the ID of a charge, for a commit that comes too late.

local LARGEST_LIST = 16

-- Returns the functions below. Most scripts do not need them, and making them takes a tenth of the time
-- of a check.
new_holds = function()
  local holds = {}

  local function set_of(entry)
    return entry.holds_key .. ':set'
  end

  -- The key that remembers the ID of a charge.
  local function charge_of(entry, id)
    return string.sub(entry.holds_key, 1, -#'held' - 1) .. 'charge!' .. id
  end

  -- The TTL in milliseconds of the key that remembers a charge. The IDs of streams of Envoy are kept for less time.
  local function charge_ttl(key)
    return exact_ttl(string.find(key, HOLD_STREAM_NAME, 1, true) and HOLD_STREAM_MEMORY or HOLD_CHARGE_MEMORY)
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

  -- Whether only holds keep the limit from admitting the cost.
  function holds.waits(entry, limit)
    return entry.held_units > 0 and not limit.admits and limit.used + entry.cost <= limit.quota
  end

  -- Returns whether an entry that reserves repeats an earlier one: its hold is open. Denies it if the key has no room
  -- for its hold.
  function holds.judge(entry)
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

  -- Microseconds until the last hold ends, at the latest.
  function holds.last_end(entry)
    return entry.until_time - entry.keep_after_end - server_time()
  end

  -- Holds the units.
  function holds.take(entry, units)
    local ends = extend(entry)
    put_hold(entry, entry.id, units, ends)
    entry.held_units, entry.outcome = entry.held_units + units, HOLD_TAKEN
  end

  -- Takes a slice of at most the cost. Returns whether it did.
  local function take_slice(entry, is_there)
    local held = entry.held_units
    local room = entry.most_sliced - held
    local units = min(entry.cost, room, max(HOLD_SMALLEST_SLICE, floor(room / 2)))
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

  -- Spends the cost, whatever the limits admit. Returns whether a limit records it.
  local function charge(entry)
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

  local function renew(entry)
    local ends = extend(entry)
    remove_hold(entry, entry.id, entry.estimate)
    put_hold(entry, entry.id, entry.estimate, ends)
    entry.held_units = entry.held_units + entry.estimate
    return false
  end

  -- Commits, renews, charges or takes a slice. Returns whether it spent units or took a slice.
  function holds.change(entry)
    local action, is_open, is_there = entry.action, false, false
    if action ~= ACTION_CHARGE then is_open, is_there = find_hold(entry) end
    if action == ACTION_SLICE then
      return not is_open and take_slice(entry, is_there or live_block(entry) >= 0)
    end
    if is_open then
      if action == ACTION_RENEW then return renew(entry) end
      remove_hold(entry, entry.id, entry.estimate)
      entry.holds_changed = true
      remember(entry)
      return charge(entry)
    end
    local charges = action ~= ACTION_COMMIT and action ~= ACTION_RENEW and not is_there
    if charges and remember(entry) then return charge(entry) end
    entry.outcome = HOLD_MISSING
    return false
  end

  -- In the key of a counter, the name of the limit and its window; also in other variants of the policy.
  local WINDOW_NAME = ':([^:]*:fw:.*)'

  -- The place of the window of the limit in the list, or the place for a new one.
  local function place_of_window(entry, limit)
    limit.window_name = limit.window_name or string.match(limit.key, WINDOW_NAME)
    local windows, i = entry.windows, 1
    while windows[i] and windows[i] ~= limit.window_name do i = i + 2 end
    return i
  end

  -- Records the last millisecond of the latest window of a limit, unless all holds end after it, later ones too.
  function holds.record_window(entry, limit, last)
    if not may_end_after_a_hold(entry, last) then return end
    local windows, i = entry.windows, place_of_window(entry, limit)
    windows[i], windows[i + 1] = limit.window_name, last
    entry.holds_changed = true
  end

  -- The last millisecond of the latest window; nil if it is not known.
  function holds.recorded_window(entry, limit)
    return entry.windows[place_of_window(entry, limit) + 1]
  end

  -- Appends the outcome of the hold, and the holds of the key, to the reply.
  function holds.report(entry, reply, n)
    reply[n + 1], reply[n + 2] = entry.outcome, entry.estimate
    reply[n + 3], reply[n + 4] = entry.held_units, entry.open_holds
    reply[n + 5], reply[n + 6] = entry.settled, entry.debt_cut
    return n + 6
  end

  return holds
end
