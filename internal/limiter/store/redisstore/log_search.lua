-- log_search: where a hit is in a log, for log.lua and log_fast.lua; see log.lua.

-- Element width*i + column, counted from 0, belongs to hit i.
local TIME, UNITS = -1, 0

-- The largest i with time(i), or a total(i), <= bound; 0 if all are larger. `known` is at most this i, 0
-- if it is not given. The values never decrease: the search gallops from the old end, where most results
-- are, and then bisects.
local function last_at_most(log, column, bound, known)
  local key, width, step = log.key, log.width, 1
  known = known or 0
  while true do
    local probe = call('LINDEX', key, width * (known + step) + column)
    if not probe or tonumber(probe) > bound then break end
    known = known + step
    step = step * 2
  end
  while step > 1 do
    step = step / 2
    local probe = call('LINDEX', key, width * (known + step) + column)
    if probe and tonumber(probe) <= bound then known = known + step end
  end
  return known
end

-- The microseconds until the first `units` of the log have left the window, and the hit i with which they leave: the first
-- with total(i) >= units. A cost fits when total(n) + cost - quota units have left. `known` is as for last_at_most.
local function log_wait(log, units, window_us, known)
  local i = last_at_most(log, UNITS, units - 1, known) + 1
  return call('LINDEX', log.key, log.width * i + TIME) + window_us - server_time(), i
end

