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

  -- Reads the summary of the holds of a key; nil if it is for the general code. A new one has room for
  -- a window and a hold.
  local function lean_holds(run, value)
    if not value then return { 0, 0, 0, 0, false, 0, nil, nil, nil, nil, nil } end
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

  -- Where the summary has the end of the latest window of a limit, which it adds if there are no holds
  -- yet; nil otherwise.
  local function place_of_window(limit, key, held)
    limit.window_name = limit.window_name or string.match(key, WINDOW_NAME)
    local name, n = limit.window_name, FIRST_WINDOW + 2 * held[WINDOWS]
    for i = FIRST_WINDOW, n - 1, 2 do
      if held[i] == name then return i + 1 end
    end
    if held[n] then return nil end
    held[WINDOWS], held[n] = held[WINDOWS] + 1, name
    return n + 1
  end

  -- Whether the window of a counter, which may begin now, can end after a hold.
  local function ends_after_a_hold(run, limit, held)
    return run.now + (limit.window + 1) * 1000 >= held[EARLIEST]
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

  -- Keeps the state of a limit as long as the holds, as the functions keep of the algorithms. Returns the
  -- microseconds until no units are used; nil leaves the call to the general code.
  local function lean_keep(run, limit, key, held)
    if limit.units == 0 then return 0 end
    if limit.deficit then
      local left = ceil_div(limit.deficit, limit.rate) + (limit.now or run.now) - run.now
      call('PEXPIRE', key, max(ttl_of(left), (lean_holds_ttl(run, held))))
      return left
    end
    if not limit.is_counter then return limit.newest + limit.window_us - run.now end
    if not ends_after_a_hold(run, limit, held) then return 0 end -- before the holds, as the reply needs it
    local ttl, place = call('PTTL', key), place_of_window(limit, key, held)
    if ttl < 0 or ttl > limit.window or not place then return nil end
    held[place] = floor(run.now / 1000) + ttl
    return (ttl + 1) * 1000
  end

  -- Microseconds until nothing is used, at the latest.
  local function lean_reset_after(limit, held, last_end)
    if held[UNITS] == 0 then return limit.left end
    if not limit.deficit then return max(limit.left, last_end + limit.window * 1000) end
    return max(limit.left, last_end) + ceil_div(held[UNITS] * limit.window_us, limit.rate)
  end

  -- Replies with what became of the hold, and the used units and the waits of the limits.
  local function lean_reply(run, verdict, outcome, estimate, held)
    local limits, n, last_end = run.limits, replied + 5, held[UNTIL_TIME] - run.keep_spent - run.now
    replies[n - 4], replies[n - 3], replies[n - 2] = verdict, outcome, estimate
    replies[n - 1], replies[n] = held[UNITS], held[OPEN]
    for i = 1, #limits do
      local limit = limits[i]
      replies[n + 1], replies[n + 2] = limit.units + held[UNITS], lean_reset_after(limit, held, last_end)
      n = n + 2
    end
    replied = n
    return true
  end

  -- Holds the cost.
  local function reserve(run, at, own)
    local values, limits, cost = run.values, run.limits, lean_cost(run, ARGV[own])
    local held = not values[at + 1] and lean_holds(run, values[at + 2])
    local open = held and held[OPEN]
    if not held or open >= run.max_open or open >= LEAN_MOST_PACKED then return nil end
    local admitted, known = lean_read(run, at + 2, held[UNITS] + cost)
    known = known or open > 0
    if not admitted or open > 0 and lean_place_of(held, ARGV[own + 1]) or run.only_known and not known then return nil end
    local ends = run.now + run.hold_for
    held[EARLIEST] = open == 0 and ends or min(held[EARLIEST], ends)
    held[UNTIL_TIME] = max(held[UNTIL_TIME], ends + run.keep_spent)
    for i = 1, #limits do
      local limit = limits[i]
      limit.left = lean_keep(run, limit, KEYS[run.first_key + at + 2 + i], held)
      if not limit.left then return nil end
    end
    local n = #held
    held[n + 1], held[n + 2], held[n + 3] = ARGV[own + 1], cost, ends
    held[UNITS], held[OPEN] = held[UNITS] + cost, open + 1
    lean_write_holds(run, at + 2, held)
    return lean_reply(run, known and 48 or 56, 1, 0, held)
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
      if limit.is_counter and limit.units == 0 and ends_after_a_hold(run, limit, held) then return true end
    end
    return false
  end

  -- Ends a hold and spends the cost.
  local function commit(run, at, own)
    local values, text = run.values, ARGV[own]
    local cost = lean_cost(run, text)
    local held = cost > 0 and not values[at + 1] and values[at + 2] and lean_holds(run, values[at + 2])
    local place = held and lean_place_of(held, ARGV[own + 1])
    if not place or not lean_read(run, at + 2, cost) then return nil end
    if held[OPEN] > 1 and starts_window(run, held) then return nil end
    local estimate = lean_remove(held, place)
    local ttl = held[OPEN] > 0 and lean_holds_ttl(run, held)
    for i = 1, #run.limits do
      local limit = run.limits[i]
      limit.units, limit.left = limit.spend(limit, KEYS[run.first_key + at + 2 + i], cost, text, ttl)
    end
    lean_write_holds(run, at + 2, held)
    return lean_reply(run, 48, 2, estimate, held)
  end

  return { reserve, commit }
end

lean_hold_action = function(action)
  hold_actions = hold_actions or new_hold_actions()
  return hold_actions[action]
end
