-- deficit_wait: how long a check waits for a refill, for deficit.lua and the algorithms of the fast path; see deficit.lua.

-- Returns the microseconds until the cost fits, the units that are used after `wait` microseconds, by default after the
-- first number, and the microseconds until none are. The limit's own time may be ahead of the server's by `ahead`
-- microseconds; refill starts when the server has caught up.
local function deficit_waits(limit, cost, ahead, wait)
  local deficit = limit.deficit
  if deficit == 0 then return 0, 0, 0 end
  local excess, fits = deficit - (limit.quota - cost) * limit.window_us, 0
  if excess > 0 then fits = ceil_div(excess, limit.rate) + ahead end
  local left = max(0, deficit - max(0, (wait or fits) - ahead) * limit.rate)
  return fits, ceil_div(left, limit.window_us), ceil_div(deficit, limit.rate) + ahead
end

