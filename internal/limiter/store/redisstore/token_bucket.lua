-- TokenBucket: a bucket of `quota` tokens, refilled continuously at `rate` tokens
-- per window; a check takes its cost out of it.
--
-- KEYS     one per limit: a string "<deficit> <time>", the deficit at that time in
--          microseconds since 1970, both hexadecimal, which saves 16 bytes;
--          "<deficit>/<time>" with a decimal deficit if the deficit is beyond the
--          integers of a double; "+<debt>" follows if part of the deficit is a debt. A
--          missing key means a full bucket
-- ARGV     rate; ceiling: the largest quota of all limits that share the bucket. A larger deficit, which a plan with
--          a larger quota has left, is an empty bucket at its time, not a debt
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
  limit.left = limit.left or keep_alive(entry, limit.key, deficit_left(limit, limit.deficits[1]))
  return min(full, limit.left)
end

algorithms.tb = {
  prepare = deficit_prepare,

  -- The deficit of an empty bucket.
  empty = function(limit) return limit.ceiling * limit.window_us end,

  read = function(_, limit)
    limit.key, limit.written, limit.left, limit.full_at = next_key(), nil, nil, nil
    limit.now, limit.stored, limit.most = server_time(), nil, nil
    local value = values[limit.key]
    local digits, mark, time, debt = string.match(value or '', '^(%S-)([ /])(%x+)%+?(.*)$')
    local deficit = mark and (mark == ' ' and tonumber(digits, 16) or tonumber(digits))
    if deficit then
      local most = limit.empty + (tonumber(debt) or 0)
      limit.stored, limit.stored_time, limit.most = deficit, tonumber(time, 16), deficit > most and most or nil
      limit.now = max(limit.now, limit.stored_time)
      local refilled = (limit.now - limit.stored_time) * limit.rate
      deficit_set(limit, max(0, deficit - refilled), limit.most and max(0, most - refilled), limit.most and 2 or 1)
    else
      deficit_set(limit, 0, nil, 1)
      if value then damaged[limit.key] = true end
    end
    limit.clock_ahead = limit.now - server_time()
  end,

  write = function(limit, ttl)
    limit.written = true
    local value, debt = bucket_value(limit.deficits[1], limit.now), deficit_debt(limit)
    if debt > 0 then value = value .. string.format('+%.17g', debt) end
    set_value(limit.key, value, ttl)
  end,

  -- The deficits at their own time, and this time.
  deficits_at = function(limit, at)
    if limit.stored then return { limit.stored, limit.most }, limit.stored_time end
    return { 0 }, at
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
