-- TokenBucket: a bucket of `quota` tokens, refilled continuously at `rate` tokens
-- per window; a check takes its cost out of it.
--
-- KEYS     one per limit: a string "<deficit> <time>", the deficit at that time in
--          microseconds since 1970, both hexadecimal, which saves 16 bytes;
--          "<deficit>/<time>" with a decimal deficit if the deficit is beyond the
--          integers of a double. A missing key means a full bucket
-- ARGV     rate; ceiling: the largest quota of all limits that share the bucket,
--          so that an edit to a smaller quota leaves an empty bucket, not a debt
-- clock    TIME, but never before the time in the key
-- cost     O(1); SET
-- denied   writes nothing, except that a TTL that became too short after an edit
--          to a slower rate is extended

-- Microseconds until the bucket is full.
local function bucket_reset_after(entry, limit)
  if limit.deficit == 0 then return 0 end
  local full = deficit_reset_after(entry, limit)
  if limit.written then return full end
  limit.left = limit.left or keep_alive(entry, limit.key, full)
  return min(full, limit.left)
end

algorithms.tb = {
  prepare = deficit_prepare,

  read = function(_, limit)
    limit.key, limit.written, limit.left, limit.full_at = next_key(), nil, nil, nil
    limit.deficit, limit.now = 0, server_time()
    local value = values[limit.key]
    if value then
      local digits, mark, time = string.match(value, '^(%S-)([ /])(%x+)$')
      local deficit = mark == ' ' and tonumber(digits, 16) or tonumber(digits)
      deficit, time = min(deficit, limit.ceiling * limit.window_us), tonumber(time, 16)
      limit.now = max(limit.now, time)
      limit.deficit = max(0, deficit - (limit.now - time) * limit.rate)
    end
    limit.lag = limit.now - server_time()
    limit.used = deficit_used(limit)
  end,

  write = function(limit, ttl)
    limit.written = true
    local form = limit.deficit <= 2 ^ 53 and '%x %x' or '%.17g/%x'
    set_value(limit.key, string.format(form, limit.deficit, limit.now), ttl)
  end,

  spend = deficit_spend,

  time_to_fit = function(entry, limit)
    local wait = deficit_time_to_fit(entry, limit)
    return wait > 0 and min(wait, bucket_reset_after(entry, limit)) or 0
  end,

  used_after = function(entry, limit, wait)
    if wait >= bucket_reset_after(entry, limit) then return 0 end
    return deficit_used_after(entry, limit, wait)
  end,

  reset_after = bucket_reset_after,
  receipt = deficit_receipt,
  refund = deficit_refund,
}
