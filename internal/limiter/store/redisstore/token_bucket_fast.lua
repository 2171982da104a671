-- TokenBucket, for fast.lua; see token_bucket.lua.

fast.tb = {
  prepare = function(limit, at)
    limit.rate, limit.window_us = tonumber(ARGV[at + 1]), limit.window * 1000
    limit.empty = tonumber(ARGV[at + 2]) * limit.window_us
    return at + 2
  end,

  read = function(limit, value)
    limit.exists, limit.deficit, limit.now = value, 0, server_time()
    if value then
      local deficit, time = string.match(value, '^(%x+) (%x+)$')
      if not deficit then return nil end
      deficit, time = tonumber(deficit, 16), tonumber(time, 16)
      if deficit > limit.empty then return nil end
      limit.now = max(limit.now, time)
      limit.deficit = max(0, deficit - (limit.now - time) * limit.rate)
    end
    return ceil_div(limit.deficit, limit.window_us)
  end,

  spend = function(limit, key, cost, _, least_ttl)
    local deficit = limit.deficit + cost * limit.window_us
    local left = ceil_div(deficit, limit.rate) + limit.now - server_time()
    local value = bucket_value(deficit, limit.now)
    write_value(key, limit.exists, value, max(ttl_of(left), least_ttl or 0))
    return ceil_div(deficit, limit.window_us), left, value
  end,

  wait = function(limit, key, cost)
    local wait, used_after, full = deficit_waits(limit, cost, limit.now - server_time())
    if full > 0 and (call('PTTL', key) + 1) * 1000 < full then return nil end
    return wait, used_after, full
  end,
}

