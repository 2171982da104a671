-- FixedWindow: at most `quota` units per window; the window starts with the
-- first unit and no later one extends it.
--
-- KEYS     one per limit: a counter whose TTL is the rest of the window
-- ARGV     ceiling: where counted attempts saturate
-- clock    none: the TTL is the only record of the window's end
-- cost     O(1); GET, SET or INCRBY, PTTL
-- denied   writes nothing, with two exceptions: an entry counting attempts adds
--          its cost until the counter reaches `ceiling`, and a TTL that is missing
--          or longer than the window is reset

-- Microseconds until the window ends. Resets a TTL that is missing or longer than
-- the window (after a manual PERSIST, or a server clock set back), so that every
-- counter expires.
local function window_left(entry, limit)
  if limit.used == 0 then return 0 end
  if not limit.ttl then
    limit.ttl = call('PTTL', limit.key)
    if limit.ttl < 0 or limit.ttl > limit.window then
      limit.ttl = limit.window
      if not entry.peek then call('PEXPIRE', limit.key, limit.window) end
    end
  end
  return (limit.ttl + 1) * 1000
end

-- When the window ends, in milliseconds since 1970, to within one.
local function window_end(entry, limit)
  return floor((server_time() + window_left(entry, limit)) / 1000)
end

algorithms.fw = {
  read = function(_, limit)
    limit.key, limit.ceiling = next_key(), next_number()
    limit.used = tonumber(call('GET', limit.key) or 0)
  end,

  spend = function(entry, limit)
    local units = entry.cost
    if entry.attempts then units = min(units, limit.ceiling - limit.used) end
    if units <= 0 then return end
    if limit.used == 0 then
      call('SET', limit.key, units, 'PX', limit.window)
      limit.ttl = limit.window
    else
      call('INCRBY', limit.key, units)
    end
    limit.used = limit.used + units
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
      call('DECRBY', limit.key, entry.cost)
    else
      call('DEL', limit.key)
    end
  end,
}

-- Decides the common case without building tables: one entry that is not blocked and
-- whose limits are all FixedWindow and all admit the cost. Returns the reply, or nil without having
-- written anything; then decide() decides the call.
lean.fw = function()
  local block, cost = next_key(), next_number()
  local flags, count = next_number(), next_number()
  local width -- arguments of a limit after quota and window
  if flags == 0 then width = 1 elseif flags == 8 then width = 3 else return nil end
  if call('EXISTS', block) == 1 then return nil end
  local reply, at = { 0 }, 1
  local first_key, first_arg = key_at, arg_at
  for _ = 1, count do
    if next_string() ~= 'fw' then return nil end
    local quota, window = next_number(), next_number()
    arg_at = arg_at + width
    local key = next_key()
    local used = tonumber(call('GET', key) or 0)
    if used + cost > quota then return nil end
    local ttl = window
    if used > 0 then
      ttl = call('PTTL', key)
      if ttl < 0 or ttl > window then return nil end
    end
    used = used + cost
    reply[at + 1], reply[at + 2], reply[at + 3] = 1, used, 0
    reply[at + 4], reply[at + 5] = used, (ttl + 1) * 1000
    at = at + 5
  end
  key_at, arg_at = first_key, first_arg
  for i = 1, count do
    local window = ARGV[arg_at + 3]
    arg_at = arg_at + 3 + width
    local key = next_key()
    if reply[5 * i - 2] == cost then
      call('SET', key, cost, 'PX', window)
    else
      call('INCRBY', key, cost)
    end
  end
  return reply
end
