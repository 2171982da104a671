-- GCRA: admits units evenly spaced at `rate` per window, and up to `quota` units in
-- one instant. This is the Generic Cell Rate Algorithm of ITU-T I.371 (virtual
-- scheduling) with a cost: the key holds the theoretical arrival time, and each
-- unit moves it later by window/rate.
--
-- KEYS     one per limit: the theoretical arrival time. The whole microseconds
--          since 1970 have 16 digits; if the time has a fraction of n/rate
--          microseconds, the digits of n follow. Redis stores up to 19 digits as
--          an integer, without extra memory. "-", another such time, "/" and a ceiling follow if a
--          plan with that ceiling has met a time beyond it: what that plan is judged by. "+<n>.<rate>" follows if the last n microseconds
--          are a debt: after an edit of the rate the same units are missing. Beside a second time it is "+<n>",
--          since another rate may have spent the rest. Releases that write "+<n>" alone read the rate as a
--          fraction of a microsecond. A missing key
--          means an arrival time in the past
-- ARGV     rate; ceiling: the furthest (us) the arrival time can be ahead, over all
--          limits that share the key
-- repair   a value of another form is as if it were missing; the next spend overwrites it
-- clock    TIME
-- cost     O(1); SET
-- denied   writes nothing, except that the ceiling is stored beside an arrival time beyond
--          it, after an edit to a higher rate or a smaller burst or a server clock set back, and that
--          a debt of another rate is stored with the new one; a peek leaves both unchanged

-- How far the time is ahead, as a deficit at the rate, below 0 if it is in the past; nil for another form.
local function ahead_of(time, rate)
  local whole, part = string.match(time, '^(' .. string.rep('%d', 16) .. ')(%d*)')
  return whole and (whole - server_time()) * rate + min(tonumber(part) or 0, rate - 1)
end

-- Reads how far the arrival time is ahead, how far the one beside it, which may be missing, and the debt, as deficits; the
-- ceiling of the second, and the rate of the debt.
local function read_arrival(limit, value)
  local times, debt, debt_rate = string.match(value, '^([^+]*)%+?(%d*)%.?(%d*)')
  local rate = tonumber(debt_rate) or limit.rate
  local cut, ceiling = string.match(times, '%-(%d*)/(%d*)')
  cut = cut and ahead_of(cut, rate)
  return ahead_of(times, rate), cut, (tonumber(debt) or 0) * rate, tonumber(ceiling) or 0, rate
end

-- Finds what judges the call: the arrival time or, if that was beyond the ceiling when a plan like this one met it, the time
-- beside it. Stores a new one of these, and a debt of another rate: the same units are missing.
local function judge_arrival(entry, limit, spent, cut, debt, rate)
  local most, judged, changed = limit.ceiling * limit.rate + debt, 1, rate ~= limit.rate
  local too_far = most + (changed and 1 or limit.rate) -- a debt is in whole microseconds
  -- 2 microseconds for the fractions of several rates.
  if cut and (limit.ceiling <= limit.cut_ceiling or (limit.ceiling + 2 - limit.cut_ceiling) * rate < spent - cut) then
    judged = cut >= too_far and 1 or 2
  end
  if judged == 1 and spent >= too_far and not entry.peek then
    judged, cut, changed, limit.cut_ceiling = 2, most, true, limit.ceiling
  end
  if rate ~= limit.rate and not entry.peek then
    -- What a slower rate would take longer than LONGEST_DEBT for is cut, and not counted.
    local longest = limit.empty + LONGEST_DEBT * limit.rate
    spent, cut = min(spent, longest), cut and min(cut, longest)
  end
  limit.ahead, limit.cut_ahead = spent, cut
  deficit_set(limit, spent, cut and max(0, cut), judged)
  if changed and not entry.peek then deficit_add(entry, limit, 0) end
end

algorithms.gc = {
  prepare = deficit_prepare,

  -- The deficit of an arrival time that is as far ahead as checks can move it.
  empty = function(limit) return limit.ceiling * limit.rate end,

  read = function(entry, limit)
    limit.key, limit.full_at, limit.clock_ahead, limit.ahead, limit.cut_ahead = next_key(), nil, 0, nil, nil
    local value = values[limit.key]
    local spent, cut, debt, rate
    if value then spent, cut, debt, limit.cut_ceiling, rate = read_arrival(limit, value) end
    if spent and spent >= 0 then return judge_arrival(entry, limit, spent, cut, debt, rate) end
    deficit_set(limit, 0, nil, 1)
    if value and not spent then
      damaged[limit.key] = true
    elseif value then
      limit.ahead = ahead_of(value, limit.rate)
    end
  end,

  write = function(limit, ttl)
    local spent, cut = limit.deficits[1], limit.deficits[2]
    local value, is_cut = arrival_value(spent, limit.rate), cut and cut < spent
    if is_cut then value = value .. string.format('-%s/%d', arrival_value(cut, limit.rate), limit.cut_ceiling) end
    local debt = floor(deficit_debt(limit) / limit.rate)
    if debt > 0 then value = value .. string.format(is_cut and '+%d' or '+%d.%d', debt, limit.rate) end
    set_value(limit.key, value, ttl)
  end,

  -- The deficits at the time `at`, and this time.
  deficits_at = function(limit, at)
    if not limit.ahead then return { 0 }, at end
    local since = (server_time() - at) * limit.rate
    return { max(0, limit.ahead + since), limit.cut_ahead and max(0, limit.cut_ahead + since) }, at
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
