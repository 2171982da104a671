-- hold, for lean.lua; see hold.lua. It leaves to the general code: holds in a set, holds that have
-- ended, reserves that are denied or repeat another one, and commits without a hold, of more than the
-- limits admit or that start a window whose end must be recorded. Its calls have different keys: it
-- does not keep the values up to date.

-- The functions of the actions reserve (1) and commit (2).
local hold_actions

-- Makes the functions. Checks do not need them: making them takes a tenth of the time of a check.
local function new_hold_actions()
  local LEAN_MOST_PACKED = 16 -- as MOST_PACKED

  -- The places in the summary of the holds, as hold.lua lists them, and that of the first window.
  local UNITS, OPEN, EARLIEST, UNTIL_TIME, IN_SET, WINDOWS, FIRST_WINDOW = 1, 2, 3, 4, 5, 6, 7

  -- Reads the summary of the holds of a key; nil if it is for the general code.
  local function lean_holds(run, value)
    local held = { cmsgpack.unpack(value) }
    return not held[IN_SET] and held[EARLIEST] > run.now and held or nil
  end

  -- The TTL of the holds in milliseconds, as holds_ttl, and as text. Most calls of a run have the same.
  local function lean_holds_ttl(run, held)
    local ttl = ceil_div(held[UNTIL_TIME], 1000) + 1 - floor(run.now / 1000)
    if ttl ~= run.ttl then run.ttl, run.ttl_text = ttl, string.format('%d', ttl) end
    return ttl, run.ttl_text
  end

  -- Writes the summary of the holds at values[at].
  local function lean_write_holds(run, at, held)
    local key = KEYS[run.first_key + at]
    if held[OPEN] == 0 then
      call('DEL', key)
    else
      local _, ttl = lean_holds_ttl(run, held)
      write_value(key, run.values[at], cmsgpack.pack(unpack(held)), ttl)
    end
  end

  -- Where the hold begins in the summary; nil if it is not there.
  local function lean_place_of(held, id)
    for i = FIRST_WINDOW + 2 * held[WINDOWS], #held, 3 do
      if held[i] == id then return i end
    end
  end

  local function window_name(limit, key)
    limit.window_name = limit.window_name or string.match(key, WINDOW_NAME)
    return limit.window_name
  end

  -- Where the summary has the end of the latest window of a limit; nil if it does not have it.
  local function place_of_window(limit, key, held)
    for i = FIRST_WINDOW, FIRST_WINDOW + 2 * held[WINDOWS] - 1, 2 do
      if held[i] == window_name(limit, key) then return i + 1 end
    end
  end

  -- Whether the window of a counter, which may begin now, can end after a hold.
  local function ends_after_a_hold(run, limit, earliest)
    return run.now + (limit.lifetime + 1) * 1000 >= earliest
  end

  -- Reads the limits, whose keys follow values[at]. Returns whether all admit the units, and whether one
  -- has a state; nil leaves the call to the general code.
  local function lean_read(run, at, units)
    local known
    for i = 1, #run.limits do
      local limit = run.limits[i]
      limit.units = limit.read(limit, run.values[at + i], KEYS[run.first_key + at + i])
      if not limit.units or limit.units + units > limit.quota then return nil end
      known = known or limit.exists
    end
    return true, known
  end

  -- Keeps the state of a limit as long as the holds, as the functions keep of the algorithms. Sets the
  -- microseconds until a deficit is gone; other spent units are gone before those that are held now. Returns
  -- the last millisecond of a window that may end after a hold, false without one; nil leaves the call to the
  -- general code.
  local function lean_keep(run, limit, key, earliest, ttl)
    limit.left = 0
    if limit.units == 0 then return false end
    if limit.deficit then
      limit.left = ceil_div(limit.deficit, limit.rate) + (limit.now or run.now) - run.now
      call('PEXPIRE', key, max(ttl_of(limit.left), ttl))
    elseif limit.is_counter and ends_after_a_hold(run, limit, earliest) then
      local left = call('PTTL', key)
      if left < 0 or left > limit.lifetime then return nil end
      return floor(run.now / 1000) + left
    end
    return false
  end

  -- Microseconds until nothing is used, at the latest, if units are held until last_end.
  local function lean_reset_after(limit, units, last_end)
    if units == 0 then return limit.left end
    if not limit.deficit then return max(limit.left, last_end + limit.window * 1000) end
    return max(limit.left, last_end) + ceil_div(units * limit.window_us, limit.rate)
  end

  -- Ends a reply, which has n values, with the units and the number of the holds that are open now, and with
  -- the used units and the wait of each limit.
  local function lean_reply(run, held, n)
    local limits, units, last_end = run.limits, held[UNITS], held[UNTIL_TIME] - run.keep_spent - run.now
    replies[n + 1], replies[n + 2] = units, held[OPEN]
    n = n + 2
    for i = 1, #limits do
      local limit = limits[i]
      replies[n + 1], replies[n + 2] = limit.units + units, lean_reset_after(limit, units, last_end)
      n = n + 2
    end
    replied = n
    return true
  end

  -- Holds the cost for a key without holds, which is the usual case.
  local function reserve_first(run, at, id, cost)
    local admitted, known = lean_read(run, at + 2, cost)
    if not admitted or run.only_known and not known then return nil end
    local limits, first_key, first, n, windows = run.limits, run.first_key + at + 2, run.first, replied + 3, nil
    replies[n - 2], replies[n - 1], replies[n] = known and 48 or 56, cost, 1
    for i = 1, #limits do
      local limit, key = limits[i], KEYS[first_key + i]
      local last = lean_keep(run, limit, key, first.ends, first.ttl)
      if last == nil then return nil end
      if last then
        windows = windows or {}
        windows[#windows + 1], windows[#windows + 2] = window_name(limit, key), last
      end
      replies[n + 1], replies[n + 2] = limit.units + cost, lean_reset_after(limit, cost, run.hold_for)
      n = n + 2
    end
    windows = windows and cmsgpack.pack(#windows / 2, unpack(windows)) or first.no_windows
    if cost ~= first.cost then first.cost, first.units = cost, cmsgpack.pack(cost) end
    if #id ~= first.length then first.length, first.id_header = #id, string.sub(cmsgpack.pack(id), 1, -#id - 1) end
    local summary = first.units .. first.times .. windows .. first.id_header .. id .. first.units .. first.packed_ends
    write_value(KEYS[first_key], false, summary, first.ttl_text)
    replied = n
    return true
  end

  -- Holds the cost beside other holds.
  local function reserve_another(run, at, id, cost)
    local held, limits = lean_holds(run, run.values[at + 2]), run.limits
    local open = held and held[OPEN]
    if not held or open >= run.max_open or open >= LEAN_MOST_PACKED then return nil end
    if not lean_read(run, at + 2, held[UNITS] + cost) or lean_place_of(held, id) then return nil end
    held[EARLIEST] = min(held[EARLIEST], run.first.ends)
    held[UNTIL_TIME] = max(held[UNTIL_TIME], run.first.until_time)
    local ttl = lean_holds_ttl(run, held)
    for i = 1, #limits do
      local limit, key = limits[i], KEYS[run.first_key + at + 2 + i]
      local last = lean_keep(run, limit, key, held[EARLIEST], ttl)
      local place = last and place_of_window(limit, key, held)
      if last == nil or last and not place then return nil end
      if place then held[place] = last end
    end
    local n = #held
    held[n + 1], held[n + 2], held[n + 3] = id, cost, run.first.ends
    held[UNITS], held[OPEN] = held[UNITS] + cost, open + 1
    lean_write_holds(run, at + 2, held)
    replies[replied + 1] = 48
    return lean_reply(run, held, replied + 1)
  end

  -- Holds the cost.
  local function reserve(run, at, own)
    local values, cost = run.values, lean_cost(run, ARGV[own])
    if values[at + 1] then return nil end
    if not values[at + 2] then return reserve_first(run, at, ARGV[own + 1], cost) end
    return reserve_another(run, at, ARGV[own + 1], cost)
  end

  -- Removes the hold at the place. Returns its units.
  local function lean_remove(held, place)
    local last, units = #held - 2, held[place + 1]
    for column = 0, 2 do
      held[place + column] = held[last + column]
      held[last + column] = nil
    end
    held[UNITS], held[OPEN] = max(0, held[UNITS] - units), max(0, held[OPEN] - 1)
    return units
  end

  -- Whether a commit starts a window that may end after a hold.
  local function starts_window(run, held)
    for i = 1, #run.limits do
      local limit = run.limits[i]
      if limit.is_counter and limit.units == 0 and ends_after_a_hold(run, limit, held[EARLIEST]) then return true end
    end
    return false
  end

  -- Spends the cost in every limit. A deficit is kept at least `ttl` milliseconds, if given.
  local function spend_limits(run, at, cost, text, ttl)
    local limits = run.limits
    for i = 1, #limits do
      local limit = limits[i]
      limit.units, limit.left = limit.spend(limit, KEYS[run.first_key + at + i], cost, text, ttl)
    end
  end

  -- Ends one of several holds and spends the cost.
  local function commit_one(run, at, cost, text, id)
    local held = lean_holds(run, run.values[at + 1])
    local place = held and lean_place_of(held, id)
    if not place or not lean_read(run, at + 1, cost) then return nil end
    if held[OPEN] > 1 and starts_window(run, held) then return nil end
    local estimate = lean_remove(held, place)
    spend_limits(run, at + 1, cost, text, held[OPEN] > 0 and lean_holds_ttl(run, held))
    lean_write_holds(run, at + 1, held)
    replies[replied + 1], replies[replied + 2] = 48, estimate
    return lean_reply(run, held, replied + 2)
  end

  -- Ends a hold and spends the cost. Usually it is the only one.
  local function commit(run, at, own)
    local text, id, value = ARGV[own], ARGV[own + 1], run.values[at + 1]
    local cost = lean_cost(run, text)
    if not value or cost == 0 then return nil end
    local estimate, open, earliest, _, in_set, windows, first, _, third = cmsgpack.unpack(value)
    if open > 1 or windows > 1 then return commit_one(run, at, cost, text, id) end
    local only = windows == 0 and first or third
    if in_set or earliest <= run.now or only ~= id or not lean_read(run, at + 1, cost) then return nil end
    local limits, first_key, n = run.limits, run.first_key + at + 1, replied + 4
    replies[n - 3], replies[n - 2], replies[n - 1], replies[n] = 48, estimate, 0, 0
    for i = 1, #limits do
      replies[n + 1], replies[n + 2] = limits[i].spend(limits[i], KEYS[first_key + i], cost, text)
      n = n + 2
    end
    call('DEL', KEYS[first_key])
    replied = n
    return true
  end

  return { reserve, commit }
end

-- What reserves of keys without holds have in common. Redis takes longer to pack all values of a summary than
-- to write it.
local function first_holds(run)
  local ends = run.now + run.hold_for
  local until_time = ends + run.keep_spent
  local ttl = ceil_div(until_time, 1000) + 1 - floor(run.now / 1000)
  return {
    ends = ends, until_time = until_time, ttl = ttl, ttl_text = string.format('%d', ttl),
    times = cmsgpack.pack(1, ends, until_time, false), no_windows = cmsgpack.pack(0), packed_ends = cmsgpack.pack(ends),
    cost = false, units = false, length = false, id_header = false,
  }
end

lean_prepare_holds = function(run, action)
  run.now = server_time()
  run.first = action == 1 and first_holds(run)
  hold_actions = hold_actions or new_hold_actions()
  run.decide = hold_actions[action]
end
