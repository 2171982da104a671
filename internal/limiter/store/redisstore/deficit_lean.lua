-- deficit, for lean.lua; see deficit.lua.

-- The waits of a check that is denied.
local function deficit_wait(limit, cost, lag)
  local deficit = limit.deficit
  if deficit == 0 then return 0, 0, 0 end
  local excess, wait = deficit - (limit.quota - cost) * limit.window_us, 0
  if excess > 0 then wait = ceil_div(excess, limit.rate) + lag end
  local left = max(0, deficit - max(0, wait - lag) * limit.rate)
  return wait, ceil_div(left, limit.window_us), ceil_div(deficit, limit.rate) + lag
end

