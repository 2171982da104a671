-- hold, for lean.lua; see hold.lua. It leaves to the general code: holds in a set, holds that have
-- ended, reserves that are denied or repeat another one, and commits without a hold or of more than
-- the limits admit. Its calls have different keys: it does not keep the values up to date.

local LEAN_MOST_PACKED = 16 -- as MOST_PACKED

-- The places in the summary of the holds, as hold.lua lists them.
local UNITS, OPEN, EARLIEST, UNTIL_TIME, PACKED, WINDOWS = 1, 2, 3, 4, 5, 6

-- Adds the actions below. Checks do not need them: making them takes a tenth of the time of a check.
add_hold_actions = function()
  -- Reads the summary of the holds of a key; nil if it is for the general code.
  local function lean_holds(value)
    if not value then return { 0, 0, 0, 0, {}, false } end
    local held = cmsgpack.unpack(value)
    return held[PACKED] and held[EARLIEST] > server_time() and held or nil
  end

  -- The TTL in milliseconds of the holds, as holds_ttl.
  local function lean_holds_ttl(held)
    return ceil_div(held[UNTIL_TIME], 1000) + 1 - floor(server_time() / 1000)
  end

  -- Writes the summary of the holds at values[at].
  local function lean_write_holds(run, at, held)
    local key = KEYS[run.first_key + at]
    if held[OPEN] == 0 then
      call('DEL', key)
    else
      write_value(key, run.values[at], cmsgpack.pack(held), lean_holds_ttl(held))
    end
  end

  -- Where the hold begins in the list; nil if it is not there.
  local function lean_place_of(held, id)
    local packed = held[PACKED]
    for i = 1, #packed, 3 do
      if packed[i] == id then return i end
    end
  end

  -- Reads the limits, whose keys follow values[at]. Returns whether all admit the units, and whether one
  -- has a state; nil leaves the call to the general code.
  local function lean_read(run, at, units)
    local known
    for i = 1, #run.limits do
      local limit, value = run.limits[i], run.values[at + i]
      limit.units = limit.read(limit, value)
      if not limit.units or limit.units + units > limit.quota then return nil end
      known = known or value
    end
    return true, known
  end

  -- Keeps the state of a limit as long as the holds, as the functions keep of the algorithms. Returns the
  -- microseconds until no units are used; nil leaves the call to the general code.
  local function lean_keep(limit, key, held)
    if limit.units == 0 then return 0 end
    if limit.deficit then
      local left = ceil_div(limit.deficit, limit.rate) + (limit.now or server_time()) - server_time()
      call('PEXPIRE', key, max(ttl_of(left), lean_holds_ttl(held)))
      return left
    end
    local ttl = call('PTTL', key)
    if ttl < 0 or ttl > limit.window then return nil end
    limit.window_name = limit.window_name or window_name(key)
    held[WINDOWS] = held[WINDOWS] or {}
    held[WINDOWS][limit.window_name] = floor((server_time() + (ttl + 1) * 1000) / 1000) - 1
    return (ttl + 1) * 1000
  end

  -- Microseconds until nothing is used, at the latest, if wait are those without the holds.
  local function lean_reset_after(run, limit, held, wait)
    if held[UNITS] == 0 then return wait end
    local last_end = held[UNTIL_TIME] - run.keep_spent - server_time()
    if not limit.deficit then return max(wait, last_end + limit.window * 1000) end
    return max(wait, last_end) + ceil_div(held[UNITS] * limit.window_us, limit.rate)
  end

  -- The reply to a call, by what became of its hold, without the reports of the limits.
  local function lean_reply(verdict, outcome, estimate, held)
    return { verdict, outcome, estimate, held[UNITS], held[OPEN], 0, 0, 0, 0 }
  end

  -- Sets the report of the i-th limit, which admits.
  local function lean_report(reply, i, held, used, reset_after)
    reply[2 * i + 6], reply[2 * i + 7] = used + held[UNITS], reset_after
  end

  -- Counts a further hold. Returns its end.
  local function lean_extend(run, held, ttl)
    local ends = server_time() + ttl * 1000
    held[EARLIEST] = held[OPEN] == 0 and ends or min(held[EARLIEST], ends)
    held[UNTIL_TIME] = max(held[UNTIL_TIME], ends + run.keep_spent)
    held[OPEN] = held[OPEN] + 1
    return ends
  end

  -- Reserve: holds the cost.
  lean_actions[1] = function(run, at, own)
    local values, limits, id, cost = run.values, run.limits, ARGV[own + 1], tonumber(ARGV[own])
    local held = not values[at + 1] and lean_holds(values[at + 2])
    if not held or held[OPEN] >= run.max_open or #held[PACKED] >= 3 * LEAN_MOST_PACKED then return nil end
    local admitted, known = lean_read(run, at + 2, held[UNITS] + cost)
    known = known or held[OPEN] > 0
    if not admitted or lean_place_of(held, id) or run.only_known and not known then return nil end
    local ends = lean_extend(run, held, tonumber(ARGV[own + 2]))
    for i = 1, #limits do
      limits[i].kept = lean_keep(limits[i], KEYS[run.first_key + at + 2 + i], held)
      if not limits[i].kept then return nil end
    end
    local packed, n = held[PACKED], #held[PACKED]
    packed[n + 1], packed[n + 2], packed[n + 3] = id, cost, ends
    held[UNITS] = held[UNITS] + cost
    lean_write_holds(run, at + 2, held)
    local reply = lean_reply(known and 48 or 56, 1, 0, held)
    for i = 1, #limits do
      lean_report(reply, i, held, limits[i].units, lean_reset_after(run, limits[i], held, limits[i].kept))
    end
    return reply
  end

  -- Removes the hold at the place. Returns its units.
  local function lean_remove(held, place)
    local packed, last = held[PACKED], #held[PACKED] - 2
    local units = packed[place + 1]
    for column = 0, 2 do
      packed[place + column] = packed[last + column]
      packed[last + column] = nil
    end
    held[UNITS], held[OPEN] = max(0, held[UNITS] - units), max(0, held[OPEN] - 1)
    return units
  end

  -- Commit: ends a hold and spends the cost.
  lean_actions[2] = function(run, at, own)
    local values, cost = run.values, tonumber(ARGV[own])
    local held = cost > 0 and not values[at + 1] and values[at + 2] and lean_holds(values[at + 2])
    local place = held and lean_place_of(held, ARGV[own + 1])
    if not place or not lean_read(run, at + 2, cost) then return nil end
    local estimate = lean_remove(held, place)
    local reply = lean_reply(48, 2, estimate, held)
    for i = 1, #run.limits do
      local limit, key = run.limits[i], KEYS[run.first_key + at + 2 + i]
      local used, wait, value = limit.spend(limit, key, cost, ARGV[own])
      if held[OPEN] > 0 then
        limit.units = limit.read(limit, value)
        lean_keep(limit, key, held)
      end
      lean_report(reply, i, held, used, lean_reset_after(run, limit, held, wait))
    end
    lean_write_holds(run, at + 2, held)
    return reply
  end
end
