-- GCRA, for fast.lua; see gcra.lua.

fast.gc = {
  prepare = function(limit, at)
    limit.rate, limit.ceiling, limit.window_us = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), limit.window * 1000
    return at + 2
  end,

  read = function(limit, value)
    limit.exists, limit.deficit = value, 0
    if value then
      local arrival, part = string.match(value, '^(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)(%d*)$')
      part = tonumber(part) or 0
      if not arrival or part >= limit.rate then return nil end
      local ahead = arrival - server_time()
      if ahead > limit.ceiling then return nil end
      limit.deficit = max(0, ahead * limit.rate + part)
    end
    return ceil_div(limit.deficit, limit.window_us)
  end,

  spend = function(limit, key, cost, _, least_ttl)
    local deficit = limit.deficit + cost * limit.window_us
    local left = ceil_div(deficit, limit.rate)
    local value = arrival_value(deficit, limit.rate)
    write_value(key, limit.exists, value, max(ttl_of(left), least_ttl or 0))
    return ceil_div(deficit, limit.window_us), left, value
  end,

  wait = function(limit, _, cost) return deficit_waits(limit, cost, 0) end,
}

