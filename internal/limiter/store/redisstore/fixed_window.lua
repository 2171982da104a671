-- FixedWindow: at most `quota` units per window; the window starts with the
-- first unit and no later one extends it. With a calendar the window is a period
-- of the calendar and ends with it.
--
-- KEYS     one per limit: a counter whose TTL is the rest of the window
-- ARGV     ceiling: where counted attempts saturate; other units saturate at SUM_LARGEST
--          lifetime: the TTL of a new counter (ms), with a calendar the TTL for the longest period
--          with a calendar, whose `window` is 0, also the times when the previous, this and the
--          next two periods begin (ms since 1970), by the clock of the caller
-- clock    none: the TTL is the only record of the window's end; with a calendar
--          TIME selects the period of a new window
-- cost     O(1); SET or INCRBY, PTTL
-- repair   a value that is not a count counts as missing; the next spend overwrites it
-- denied   writes nothing, with two exceptions: an entry counting attempts adds
--          its cost until the counter reaches `ceiling`, and a TTL that is missing
--          or longer than the window is reset

-- The end of the period that contains the time, both in milliseconds since 1970. After the known
-- periods it repeats the last one; before them, it ends with the first.
local function period_end(starts, time)
  for i = 1, #starts do
    if starts[i] > time then return starts[i] end
  end
  local last = starts[#starts]
  local length = last - starts[#starts - 1]
  return last + (floor((time - last) / length) + 1) * length
end

-- The last millisecond of a window that begins at `first`. A key cannot expire in the
-- millisecond in which it is written, so a window that begins in the last one of a
-- period is 1 ms longer.
local function last_of_window(limit, first)
  if not limit.periods then return first + limit.lifetime end
  return max(period_end(limit.periods, first) - 1, first + 1)
end

-- The TTL in milliseconds of a window that begins now.
local function whole_window(limit)
  if not limit.periods then return limit.lifetime end
  local now = floor(server_time() / 1000)
  return last_of_window(limit, now) - now
end

-- Starts a window with these units. With a calendar it ends at an exact time.
local function start_window(limit, units, ttl)
  set_value(limit.key, units, ttl, limit.periods and floor(server_time() / 1000) + ttl)
  limit.used, limit.ttl = units, ttl
end

-- Microseconds until the window ends. Resets a TTL that is missing or longer than
-- the window (after a manual PERSIST, or a server clock set back), so that every
-- counter expires.
local function window_left(entry, limit)
  if limit.used == 0 then return 0 end
  if not limit.ttl then
    limit.ttl = time_left(limit.key)
    if limit.ttl < 0 or limit.ttl > limit.lifetime then
      limit.ttl = whole_window(limit)
      if not entry.peek then set_time_left(limit.key, limit.ttl) end
    end
  end
  return (limit.ttl + 1) * 1000
end

-- When the window ends, in milliseconds since 1970, to within one.
local function window_end(entry, limit)
  return floor((server_time() + window_left(entry, limit)) / 1000)
end

-- The units of a counter. A value that this script has set is a number.
local function count_of(key)
  local value = values[key]
  if type(value) ~= 'string' then return value or 0 end
  if string.find(value, '^[1-9]%d*$') or value == '0' then return tonumber(value) end
  damaged[key] = true
  return 0
end

algorithms.fw = {
  prepare = function(limit)
    limit.ceiling, limit.lifetime = next_number(), next_number()
    if limit.window > 0 then return end
    limit.window, limit.periods = limit.lifetime + 1, {}
    for i = 1, 4 do limit.periods[i] = next_number() end
  end,

  read = function(_, limit)
    limit.key = next_key()
    if not deferred then limit.ttl = nil end -- else the previous call has read it
    limit.used = count_of(limit.key)
  end,

  -- The units count in the window that contains the time `at`, unless it has ended. Without such a
  -- window they start one.
  settle = function(entry, limit, units, at)
    if limit.used > 0 then
      limit.used = add_to_value(limit.key, min(units, SUM_LARGEST - limit.used))
      return
    end
    local now, first = floor(server_time() / 1000), floor(at / 1000)
    local ended = holds.recorded_window(entry, limit)
    if ended and ended < now and first <= ended then return end
    local ends = last_of_window(limit, first)
    if ends >= now then
      ends = max(ends, now + 1)
      start_window(limit, units, ends - now)
    end
    holds.record_window(entry, limit, ends)
  end,

  keep = function(entry, limit)
    if limit.used > 0 then holds.record_window(entry, limit, window_end(entry, limit) - 1) end
  end,

  after_last = function(entry, limit) return holds.last_end(entry) + limit.window * 1000 end,

  spend = function(entry, limit)
    local ceiling = entry.attempts and limit.ceiling or SUM_LARGEST
    local units = min(entry.cost, ceiling - limit.used)
    if units <= 0 then return end
    if limit.used == 0 then
      start_window(limit, units, whole_window(limit))
      if entry.open_holds > 0 then holds.record_window(entry, limit, window_end(entry, limit) - 1) end
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

  -- Refunds only the window that was charged, not a later one, which ends at least a window later, or less after a
  -- reset. The end is not exact: a busy machine may halt Redis between TIME and PTTL. Windows under 5 ms are too short
  -- to distinguish and expire on their own.
  refund = function(entry, limit, charged_end)
    if limit.used == 0 or limit.window < 5 then return end
    if math.abs(window_end(entry, limit) - charged_end) > min(50, limit.window / 2) then return end
    if limit.used > entry.cost then
      add_to_value(limit.key, -entry.cost)
    else
      delete_value(limit.key)
    end
  end,
}
