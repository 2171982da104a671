-- deficit: how far a bucket is from full, for the algorithms that refill.
--
-- A limit refills at `rate` units per window and holds `quota` units when full.
-- The deficit is kept in units times the window in microseconds: one unit is
-- `window_us`, one microsecond refills `rate`, and all values stay integers. This
-- is exact while quota * window_us is at most 2^53. Above that, rounding to a
-- double costs less than a millisecond of refill while the quota is less than two
-- million times the rate.
--
-- A plan with a larger burst can have spent more than the bucket of this plan holds. The call is judged by a
-- bucket that is at most empty, and yet stores what was spent: nothing that another plan has admitted is
-- forgotten. So a limit has one or two deficits, which spends and refills change together:
--   deficits[1]  of what was spent
--   deficits[2]  cut to an empty bucket, when a plan with a smaller burst met it
--   judged       which of them judges the call; limit.deficit is this one
--
-- Commits and charges can take more than a bucket has: a debt, which is stored beside the
-- deficit, because a deficit above the largest quota is otherwise cut.

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

-- Sets the deficits, and which of them judges.
local function deficit_set(limit, spent, cut, judged)
  limit.deficits, limit.judged = { spent, cut }, judged
  limit.deficit = limit.deficits[judged]
  limit.used = deficit_used(limit)
end

local function deficit_time_to_fit(entry, limit)
  return (deficit_waits(limit, entry.cost, limit.clock_ahead))
end

local function deficit_used_after(entry, limit, wait)
  local _, used_after = deficit_waits(limit, entry.cost, limit.clock_ahead, wait)
  return used_after
end

-- Microseconds until the deficit is refilled.
local function deficit_left(limit, deficit)
  if deficit == 0 then return 0 end
  return ceil_div(deficit, limit.rate) + limit.clock_ahead
end

local function deficit_reset_after(_, limit) return deficit_left(limit, limit.deficit) end

-- Refills the deficits for the microseconds, and then adds the amount, which may be negative. Of a debt that would take
-- longer than LONGEST_DEBT it adds only a part, and counts the units that it leaves out, if the entry reports them.
local function deficit_move(entry, limit, deficits, micros, amount)
  local most = limit.empty + LONGEST_DEBT * limit.rate
  for i = 1, #deficits do
    local found = max(0, deficits[i] - micros * limit.rate)
    local sum, largest = max(0, found + amount), max(found, most)
    deficits[i] = min(sum, largest)
    if sum > largest and i == limit.judged and entry.debt_cut then
      entry.debt_cut = entry.debt_cut + floor((sum - largest) / limit.window_us)
    end
  end
end

-- The part of the deficit that is a debt.
local function deficit_debt(limit)
  return max(0, limit.deficit - limit.empty)
end

-- The TTL in milliseconds of the state.
local function deficit_ttl(entry, limit)
  local left = deficit_left(limit, limit.deficits[1])
  return entry.open_holds > 0 and holds.ttl_of(entry, left) or ttl_of(left)
end

-- Adds the amount, which may be negative, to the deficits and stores the state.
local function deficit_add(entry, limit, amount)
  deficit_move(entry, limit, limit.deficits, 0, amount)
  deficit_set(limit, limit.deficits[1], limit.deficits[2], limit.judged)
  if limit.deficits[1] == 0 then
    delete_value(limit.key)
  else
    limit.algorithm.write(limit, deficit_ttl(entry, limit))
  end
end

local function deficit_spend(entry, limit)
  limit.full_at = server_time() + limit.clock_ahead + ceil_div(limit.deficit, limit.rate)
  deficit_add(entry, limit, entry.cost * limit.window_us)
end

-- Adds the units to the deficits at the time `at`; limit.past are the deficits at limit.past_time, the latest
-- time that was settled.
local function deficit_settle(entry, limit, units, at)
  if not limit.past then limit.past, limit.past_time = limit.algorithm.deficits_at(limit, at) end
  local time = max(at, limit.past_time)
  deficit_move(entry, limit, limit.past, time - limit.past_time, units * limit.window_us)
  limit.past_time = time
end

local function deficit_end_settling(entry, limit)
  deficit_move(entry, limit, limit.past, server_time() + limit.clock_ahead - limit.past_time, 0)
  limit.deficits, limit.past = limit.past, nil
  deficit_add(entry, limit, 0)
end

-- Settling needs the deficit at the end of a hold, also after the bucket has become full.
local function deficit_keep(entry, limit)
  if limit.deficits[1] > 0 then set_time_left(limit.key, deficit_ttl(entry, limit)) end
end

local function deficit_after_last(entry, limit, wait)
  return max(wait, holds.last_end(entry)) + ceil_div(entry.held_units * limit.window_us, limit.rate)
end

-- When the bucket would have been full without this spend.
local function deficit_receipt(_, limit) return limit.full_at or 0 end

-- Refunds the cost, less the units that have been refilled since `full_at`.
local function deficit_refund(entry, limit, full_at)
  local refilled = max(0, server_time() + limit.clock_ahead - full_at) * limit.rate
  deficit_add(entry, limit, -max(0, entry.cost * limit.window_us - refilled))
end
