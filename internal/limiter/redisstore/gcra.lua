-- GCRA: admits units evenly spaced at `rate` per window, and up to `quota` units in
-- one instant. This is the Generic Cell Rate Algorithm of ITU-T I.371 (virtual
-- scheduling) with a cost: the key holds the theoretical arrival time, and each
-- unit moves it later by window/rate.
--
-- KEYS     one per limit: the theoretical arrival time. The whole microseconds
--          since 1970 have 16 digits; if the time has a fraction of n/rate
--          microseconds, the digits of n follow. Redis stores up to 19 digits as
--          an integer, without extra memory. "+<n>.<rate>" follows if the last n microseconds
--          are a debt: after an edit of the rate the same units are missing. Releases that
--          write "+<n>" alone read the rate as a fraction of a microsecond. A missing key
--          means an arrival time in the past
-- ARGV     rate; ceiling: the furthest (us) the arrival time can be ahead, over all
--          limits that share the key
-- repair   a value of another form is as if it were missing; the next spend overwrites it
-- clock    TIME
-- cost     O(1); SET
-- denied   writes nothing, except that an arrival time too far ahead, after an
--          edit to a higher rate or a server clock set back, is moved back to the
--          ceiling, and that a debt of another rate is stored with the new one; a
--          peek leaves both unchanged

-- Reads the whole microseconds, the fraction, the debt, and the rate of the debt if it is known.
local function read_arrival(value)
  local mark = string.find(value, '+', 17, true)
  local part = string.sub(value, 17, mark and mark - 1)
  local arrival = string.match(value, '^' .. string.rep('%d', 16))
  if not mark then return tonumber(arrival), tonumber(part) or 0, 0 end
  local debt, rate = string.match(value, '^(%d+)%.?(%d*)$', mark + 1)
  return tonumber(arrival), tonumber(part) or 0, tonumber(debt) or 0, tonumber(rate)
end

-- Moves an arrival time that is too far ahead back to the ceiling and the debt, and one of another rate to
-- where its units end at the rate of the limit.
local function limit_arrival(entry, limit, ahead, debt, rate)
  local most = limit.ceiling * limit.rate + debt * rate
  local too_far = ahead > limit.ceiling + debt
  if rate ~= limit.rate then too_far = limit.deficit > most end
  if not too_far and rate == limit.rate then return end
  if not entry.peek then
    -- What a slower rate would take longer than LONGEST_DEBT for is cut, and not counted.
    limit.deficit = min(too_far and most or limit.deficit, limit.empty + LONGEST_DEBT * limit.rate)
    deficit_add(entry, limit, 0)
  end
  local whole = floor(limit.deficit / limit.rate)
  limit.arrival, limit.part = server_time() + whole, limit.deficit - whole * limit.rate
end

algorithms.gc = {
  prepare = deficit_prepare,

  -- The deficit of an arrival time that is as far ahead as checks can move it.
  empty = function(limit) return limit.ceiling * limit.rate end,

  read = function(entry, limit)
    limit.key, limit.full_at = next_key(), nil
    limit.deficit, limit.lag = 0, 0
    limit.arrival = nil
    local value = values[limit.key]
    local arrival, part, debt, rate = read_arrival(value or '')
    if arrival then
      local ahead = arrival - server_time()
      rate = rate or limit.rate
      limit.arrival, limit.part = arrival, min(part, rate - 1)
      limit.deficit = max(0, ahead * rate + limit.part)
      if ahead >= 0 then limit_arrival(entry, limit, ahead, debt, rate) end
    elseif value then
      damaged[limit.key] = true
    end
    limit.used = deficit_used(limit)
  end,

  write = function(limit, ttl)
    local value = arrival_value(limit.deficit, limit.rate)
    local debt = floor(deficit_debt(limit) / limit.rate)
    if debt > 0 then value = value .. string.format('+%d.%d', debt, limit.rate) end
    set_value(limit.key, value, ttl)
  end,

  -- The deficit at the time `at`, and this time.
  deficit_at = function(limit, at)
    if not limit.arrival then return 0, at end
    return max(0, (limit.arrival - at) * limit.rate + limit.part), at
  end,

  spend = deficit_spend,
  settle = deficit_settle,
  end_settling = deficit_end_settling,
  keep = deficit_keep,
  after_last = deficit_after_last,
  time_to_fit = deficit_time_to_fit,
  used_after = deficit_used_after,
  reset_after = deficit_reset_after,
  receipt = deficit_receipt,
  refund = deficit_refund,
}
