-- FixedWindow: at most `quota` units per window; the window starts with the
-- first unit and no later one extends it.
--
-- KEYS     one per limit: a counter whose TTL is the rest of the window
-- ARGV     ceiling: where counted attempts saturate
-- clock    none: the TTL is the only record of the window's end
-- cost     O(1); SET or INCRBY, PTTL
-- denied   writes nothing, with two exceptions: an entry counting attempts adds
--          its cost until the counter reaches `ceiling`, and a TTL that is missing
--          or longer than the window is reset

-- Microseconds until the window ends. Resets a TTL that is missing or longer than
-- the window (after a manual PERSIST, or a server clock set back), so that every
-- counter expires.
local function window_left(entry, limit)
  if limit.used == 0 then return 0 end
  if not limit.ttl then
    limit.ttl = time_left(limit.key)
    if limit.ttl < 0 or limit.ttl > limit.window then
      limit.ttl = limit.window
      if not entry.peek then set_time_left(limit.key, limit.window) end
    end
  end
  return (limit.ttl + 1) * 1000
end

-- When the window ends, in milliseconds since 1970, to within one.
local function window_end(entry, limit)
  return floor((server_time() + window_left(entry, limit)) / 1000)
end

algorithms.fw = {
  prepare = function(limit) limit.ceiling = next_number() end,

  read = function(_, limit)
    limit.key = next_key()
    if not deferred then limit.ttl = nil end -- else it is that of the previous call
    limit.used = tonumber(values[limit.key] or 0)
  end,

  spend = function(entry, limit)
    local units = entry.cost
    if entry.attempts then units = min(units, limit.ceiling - limit.used) end
    if units <= 0 then return end
    if limit.used == 0 then
      set_value(limit.key, units, limit.window)
      limit.used, limit.ttl = units, limit.window
    else
      limit.used = add_to_value(limit.key, units)
    end
  end,

  time_to_fit = function(entry, limit)
    if limit.used + entry.cost <= limit.quota then return 0 end
    return window_left(entry, limit)
  end,

  used_after = function(entry, limit, wait)
    if wait >= window_left(entry, limit) then return 0 end
    return limit.used
  end,

  reset_after = window_left,

  receipt = window_end,

  -- Refunds only the window that was charged, not a later one. Windows under 5 ms
  -- are too short to distinguish and expire on their own.
  refund = function(entry, limit, charged_end)
    if limit.used == 0 or limit.window < 5 then return end
    if math.abs(window_end(entry, limit) - charged_end) > 3 then return end
    if limit.used > entry.cost then
      add_to_value(limit.key, -entry.cost)
    else
      delete_value(limit.key)
    end
  end,
}
