-- TokenBucket: a bucket of `quota` tokens, refilled continuously at `rate` tokens
-- per window; a check takes its cost out of it.
--
-- KEYS     one per limit: a string "<deficit> <time>", the time in microseconds
--          since 1970 when the bucket lacked that much; no key is a full bucket
-- ARGV     rate; ceiling: the largest quota of all limits that share the bucket,
--          so an edit to a smaller one leaves an empty bucket and not a debt
-- clock    TIME, but never before the time in the key
-- cost     O(1); GET, SET
-- refused  writes nothing

algorithms.tb = {
  read = function(_, limit)
    limit.key, limit.rate, limit.ceiling = next_key(), next_number(), next_number()
    limit.window_us = limit.window * 1000
    limit.deficit, limit.now = 0, server_time()
    local value = call('GET', limit.key)
    if value then
      local deficit, time = string.match(value, '^(%S+) (%S+)$')
      deficit, time = min(tonumber(deficit), limit.ceiling * limit.window_us), tonumber(time)
      limit.now = max(limit.now, time)
      limit.deficit = max(0, deficit - (limit.now - time) * limit.rate)
    end
    limit.lag = limit.now - server_time()
    limit.used = deficit_used(limit)
  end,

  write = function(limit, ttl)
    call('SET', limit.key, string.format('%.17g %d', limit.deficit, limit.now), 'PX', ttl)
  end,

  spend = deficit_spend,
  fit = deficit_fit,
  used_in = deficit_used_in,
  idle = deficit_idle,
  give_back = deficit_give_back,
}
