-- deficit: how far a bucket is from full, for the algorithms that refill.
--
-- A limit refills at `rate` units per window and holds `quota` units when full.
-- The deficit is kept in units times the window in microseconds: one unit is
-- `window_us`, one microsecond refills `rate`, and all values stay integers. This
-- is exact while quota * window_us is at most 2^53. Above that, rounding to a
-- double costs less than a millisecond of refill while the quota is less than two
-- million times the rate.

local function deficit_prepare(limit)
  limit.rate, limit.ceiling = next_number(), next_number()
  limit.window_us = limit.window * 1000
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

-- Adds the amount, which may be negative, to the deficit and stores the state.
local function deficit_add(limit, amount)
  limit.deficit = max(0, limit.deficit + amount)
  limit.used = deficit_used(limit)
  if limit.deficit == 0 then
    delete_value(limit.key)
    return
  end
  limit.algorithm.write(limit, ttl_of(ceil_div(limit.deficit, limit.rate) + limit.lag))
end

local function deficit_spend(entry, limit)
  limit.full_at = server_time() + limit.lag + ceil_div(limit.deficit, limit.rate)
  deficit_add(limit, entry.cost * limit.window_us)
end

-- When the bucket would have been full without this spend.
local function deficit_receipt(_, limit) return limit.full_at or 0 end

-- Refunds the cost, less the units that have been refilled since `full_at`.
local function deficit_refund(entry, limit, full_at)
  local refilled = max(0, server_time() + limit.lag - full_at) * limit.rate
  deficit_add(limit, -max(0, entry.cost * limit.window_us - refilled))
end
