-- hold, for fast.lua; see hold.lua.

-- The microseconds until nothing is used, at the latest, if the holds are spent when the last one ends.
local function after_last_hold(limit, held, last_end, reset_after)
  if held == 0 then return reset_after end
  if limit.rate then return max(reset_after, last_end) + ceil_div(held * limit.window_us, limit.rate) end
  return max(reset_after, last_end + limit.window * 1000)
end

-- As fast_check, of a key with holds, of which it gets the summary. The general path decides also peeks, and if a hold may
-- have ended, if the check is denied, and if it starts a window, which the holds record.
fast_check_beside_holds = function(run, at, cost_at, summary)
  local _, held, open, earliest, until_time = cmsgpack.unpack_limit(summary, 4, 0)
  local now = server_time()
  if run.peeks or not until_time or earliest <= now then return nil end
  local limits, values, text = run.limits, run.values, ARGV[cost_at]
  local cost, before_key = text + 0, run.before_key + at
  for i = 1, #limits do
    local limit = limits[i]
    local used = limit.read(limit, values[at + i], KEYS[before_key + i])
    if not used or used + held + cost > limit.quota then return nil end
    if limit.counts_from_first and used == 0 then return nil end
  end
  local least_ttl = ceil_div(until_time, 1000) + 1 - floor(now / 1000)
  local last_end = until_time - run.keep_after_end - now
  local reply, n = { REPORT_SHORT + REPORT_HOLDS, HOLD_NONE, 0, held, open, 0, 0 }, 7
  for i = 1, #limits do
    local limit, used, reset_after = limits[i], nil, nil
    used, reset_after, values[at + i] = limit.spend(limit, KEYS[before_key + i], cost, text, least_ttl)
    reply[n + 1], reply[n + 2] = used + held, after_last_hold(limit, held, last_end, reset_after)
    n = n + 2
  end
  if repaired then reply[1], repaired = reply[1] + REPORT_REPAIRED, false end
  return reply
end

