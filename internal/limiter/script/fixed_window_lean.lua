-- FixedWindow, for lean.lua; see fixed_window.lua.

-- Above this count a counter does not grow, so that it stays an integer of a double.
local LARGEST_COUNT = 2 ^ 52

lean.fw = {
  prepare = function(_, at) return at + 1 end,

  read = function(limit, value)
    limit.exists, limit.used = value, tonumber(value or 0)
    return limit.used
  end,

  spend = function(limit, key, cost)
    cost = min(cost, LARGEST_COUNT - limit.used)
    local used, ttl = cost, limit.window
    if limit.used == 0 then
      write_value(key, limit.exists, cost, ttl)
    else
      used, ttl = call('INCRBY', key, cost), call('PTTL', key)
      if ttl < 0 or ttl > limit.window then
        ttl = limit.window
        call('PEXPIRE', key, ttl)
      end
    end
    return used, (ttl + 1) * 1000, used
  end,

  wait = function(limit, key, cost)
    local left = 0
    if limit.used ~= 0 then
      local ttl = call('PTTL', key)
      if ttl < 0 or ttl > limit.window then return nil end
      left = (ttl + 1) * 1000
    end
    local wait = limit.used + cost > limit.quota and left or 0
    return wait, wait >= left and 0 or limit.used, left
  end,
}

