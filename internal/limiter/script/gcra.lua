-- GCRA: admits units evenly spaced at `rate` per window, and up to `quota` units in
-- one instant. This is the Generic Cell Rate Algorithm of ITU-T I.371 (virtual
-- scheduling) with a cost: the key holds the theoretical arrival time, and each
-- unit moves it later by window/rate.
--
-- KEYS     one per limit: the theoretical arrival time. The whole microseconds
--          since 1970 have 16 digits; if the time has a fraction of n/rate
--          microseconds, the digits of n follow. Redis stores up to 19 digits as
--          an integer, without extra memory. A missing key means an arrival time
--          in the past
-- ARGV     rate; ceiling: the furthest (us) the arrival time can be ahead, over all
--          limits that share the key
-- clock    TIME
-- cost     O(1); SET
-- denied   writes nothing, except that an arrival time too far ahead, after an
--          edit to a higher rate or a server clock set back, is moved back to the
--          ceiling; a peek uses it unchanged

algorithms.gc = {
  prepare = deficit_prepare,

  read = function(entry, limit)
    limit.key, limit.full_at = next_key(), nil
    limit.deficit, limit.lag = 0, 0
    local value = values[limit.key]
    if value then
      local ahead = tonumber(string.sub(value, 1, 16)) - server_time()
      local part = min(tonumber(string.sub(value, 17)) or 0, limit.rate - 1)
      local too_far = ahead > limit.ceiling and not entry.peek
      if too_far then ahead, part = limit.ceiling, 0 end
      limit.deficit = max(0, ahead * limit.rate + part)
      if too_far then deficit_add(limit, 0) end
    end
    limit.used = deficit_used(limit)
  end,

  write = function(limit, ttl)
    local ahead = floor(limit.deficit / limit.rate)
    local part = limit.deficit - ahead * limit.rate
    local value = string.format('%016d', server_time() + ahead)
    if part > 0 then value = value .. string.format('%d', part) end
    set_value(limit.key, value, ttl)
  end,

  spend = deficit_spend,
  time_to_fit = deficit_time_to_fit,
  used_after = deficit_used_after,
  reset_after = deficit_reset_after,
  receipt = deficit_receipt,
  refund = deficit_refund,
}
