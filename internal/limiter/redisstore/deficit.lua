-- deficit: how far a bucket is from full, for the algorithms that refill.
--
-- A limit refills at `rate` units per window and holds `quota` units when full.
-- The deficit is kept in units times the window in microseconds: one unit is
-- `window_us`, one microsecond refills `rate`, and all values stay integers. This
-- is exact while quota * window_us is at most 2^53. Above that, rounding to a
-- double costs less than a millisecond of refill while the quota is less than two
-- million times the rate.
--
-- Commits and charges can take more than a bucket has: a debt, which is stored beside the
-- deficit, because a deficit above the largest quota is otherwise the rest of an edit.

-- The longest time (us) in which a debt is worked off: 720 hours. More is cut.
local LONGEST_DEBT = 2592000000000

local function deficit_prepare(limit)
  limit.rate, limit.ceiling = next_number(), next_number()
  limit.window_us = limit.window * 1000
  limit.empty = limit.algorithm.empty(limit)
end

-- Units missing from a full bucket, rounded up.
local function deficit_used(limit)
  return ceil_div(limit.deficit, limit.window_us)
end

-- Microseconds until the cost fits. The limit's own time may be ahead of the
-- server's by `lag`; refill starts when the server has caught up.
local function deficit_time_to_fit(entry, limit)
  local excess = limit.deficit - (limit.quota - entry.cost) * limit.window_us
  if excess <= 0 then return 0 end
  return ceil_div(excess, limit.rate) + limit.lag
end

local function deficit_used_after(_, limit, wait)
  local left = max(0, limit.deficit - max(0, wait - limit.lag) * limit.rate)
  return ceil_div(left, limit.window_us)
end

local function deficit_reset_after(_, limit)
  if limit.deficit == 0 then return 0 end
  return ceil_div(limit.deficit, limit.rate) + limit.lag
end

-- The deficit without the debt that would take longer than LONGEST_DEBT. Counts the units it cuts, if the entry
-- reports them.
local function deficit_cut(entry, limit, deficit)
  local most = limit.empty + LONGEST_DEBT * limit.rate
  if deficit <= most then return deficit end
  if entry.debt_cut then entry.debt_cut = entry.debt_cut + floor((deficit - most) / limit.window_us) end
  return most
end

-- The part of the deficit that is a debt.
local function deficit_debt(limit)
  return max(0, limit.deficit - limit.empty)
end

-- Adds the amount, which may be negative, to the deficit and stores the state.
local function deficit_add(entry, limit, amount)
  limit.deficit = deficit_cut(entry, limit, max(0, limit.deficit + amount))
  limit.used = deficit_used(limit)
  if limit.deficit == 0 then
    delete_value(limit.key)
    return
  end
  local left = ceil_div(limit.deficit, limit.rate) + limit.lag
  limit.algorithm.write(limit, entry.open_holds > 0 and holds.ttl_of(entry, left) or ttl_of(left))
end

local function deficit_spend(entry, limit)
  limit.full_at = server_time() + limit.lag + ceil_div(limit.deficit, limit.rate)
  deficit_add(entry, limit, entry.cost * limit.window_us)
end

-- Adds the units to the deficit at the time `at`; limit.past and limit.past_time are the deficit
-- of the latest time that was settled.
local function deficit_settle(entry, limit, units, at)
  if not limit.past then limit.past, limit.past_time = limit.algorithm.deficit_at(limit, at) end
  local time = max(at, limit.past_time)
  local left = max(0, limit.past - (time - limit.past_time) * limit.rate)
  limit.past = deficit_cut(entry, limit, left + units * limit.window_us)
  limit.past_time = time
end

local function deficit_end_settling(entry, limit)
  local passed = server_time() + limit.lag - limit.past_time
  limit.deficit = max(0, limit.past - passed * limit.rate)
  limit.past = nil
  deficit_add(entry, limit, 0)
end

-- Settling needs the deficit at the end of a hold, also after the bucket has become full.
local function deficit_keep(entry, limit)
  if limit.deficit == 0 then return end
  local left = ceil_div(limit.deficit, limit.rate) + limit.lag
  set_time_left(limit.key, holds.ttl_of(entry, left))
end

local function deficit_after_last(entry, limit, wait)
  return max(wait, holds.last_end(entry)) + ceil_div(entry.held_units * limit.window_us, limit.rate)
end

-- When the bucket would have been full without this spend.
local function deficit_receipt(_, limit) return limit.full_at or 0 end

-- Refunds the cost, less the units that have been refilled since `full_at`.
local function deficit_refund(entry, limit, full_at)
  local refilled = max(0, server_time() + limit.lag - full_at) * limit.rate
  deficit_add(entry, limit, -max(0, entry.cost * limit.window_us - refilled))
end
