-- TokenBucket: a bucket of `quota` tokens, refilled continuously at `rate` tokens
-- per window; a check takes its cost out of it.
--
-- KEYS     one per limit: a string "<deficit> <time>", the deficit at that time in
--          microseconds since 1970, both hexadecimal, which saves 16 bytes;
--          "<deficit>/<time>" with a decimal deficit if the deficit is beyond the
--          integers of a double; "+<debt>" follows if part of the deficit is a debt. A
--          missing key means a full bucket
-- ARGV     rate; ceiling: the largest quota of all limits that share the bucket,
--          so that an edit to a smaller quota leaves an empty bucket, not a debt
-- clock    TIME, but never before the time in the key
-- repair   a value of another form is as if it were missing; the next spend overwrites it
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

  -- The deficit of an empty bucket.
  empty = function(limit) return limit.ceiling * limit.window_us end,

  read = function(_, limit)
    limit.key, limit.written, limit.left, limit.full_at = next_key(), nil, nil, nil
    limit.deficit, limit.now = 0, server_time()
    limit.stored = nil
    local value = values[limit.key]
    local digits, mark, time, debt = string.match(value or '', '^(%S-)([ /])(%x+)%+?(.*)$')
    local deficit = mark and (mark == ' ' and tonumber(digits, 16) or tonumber(digits))
    if deficit then
      deficit, time = min(deficit, limit.empty + (tonumber(debt) or 0)), tonumber(time, 16)
      limit.now = max(limit.now, time)
      limit.deficit = max(0, deficit - (limit.now - time) * limit.rate)
      limit.stored, limit.stored_time = deficit, time
    elseif value then
      damaged[limit.key] = true
    end
    limit.lag = limit.now - server_time()
    limit.used = deficit_used(limit)
  end,

  write = function(limit, ttl)
    limit.written = true
    local value, debt = bucket_value(limit.deficit, limit.now), deficit_debt(limit)
    if debt > 0 then value = value .. string.format('+%.17g', debt) end
    set_value(limit.key, value, ttl)
  end,

  -- The deficit at its own time, and this time.
  deficit_at = function(limit, at)
    if limit.stored then return limit.stored, limit.stored_time end
    return 0, at
  end,

  spend = deficit_spend,
  settle = deficit_settle,
  end_settling = deficit_end_settling,
  keep = deficit_keep,
  after_last = deficit_after_last,

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
