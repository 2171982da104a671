-- SlidingLog: at most `quota` units in any interval of length `window`, exact
-- to the microsecond. A hit at t stops counting at t + window.
--
-- KEYS     one per entry, shared by all its SlidingLog limits: a list
--            total(0) time(1) total(1) time(2) total(2) ... time(n) total(n)
--          where time(i) is when hit i came and total(i) the units of all hits
--          up to it, so units between two hits are one subtraction. A list
--          holds 10 to 16 bytes a hit; a sorted set would need 120 or more.
-- ARGV     after the entry's own: keep (longest window, ms) and keep_units
--          (largest threshold), over all limits that share the log
-- clock    TIME, but never before the newest hit: a server clock that is set
--          back must not reopen a window
-- cost     O(log n) list reads of O(n/600) each for a window; pruning is O(1)
--          amortised
-- refused  writes nothing, except that an entry counting attempts appends its
--          hit and drops the oldest beyond keep_units

-- Element 2i-1 is time(i), element 2i is total(i), counted from 0.
local TIME, TOTAL = 1, 0

-- The largest i with time(i) (or total(i)) <= bound, 0 if there is none: both
-- never fall, so the search gallops from the old end, where the answer mostly
-- is, and then halves.
local function last_at_most(log, column, bound)
  local known, step = 0, 1
  while true do
    local probe = call('LINDEX', log.key, 2 * (known + step) - column)
    if not probe or tonumber(probe) > bound then break end
    known = known + step
    step = step * 2
  end
  while step > 1 do
    step = step / 2
    local probe = call('LINDEX', log.key, 2 * (known + step) - column)
    if probe and tonumber(probe) <= bound then known = known + step end
  end
  return known
end

-- The units of all hits up to and including time `bound`.
local function total_until(log, bound)
  if bound < log.oldest then return log.base end
  if bound >= log.newest then return log.total end
  return tonumber(call('LINDEX', log.key, 2 * last_at_most(log, TIME, bound)))
end

local function open_log(entry)
  local log = { key = next_key(), keep = entry.keep, keep_units = entry.keep_units }
  local head = call('LRANGE', log.key, 0, 1)
  if #head == 2 then
    local tail = call('LRANGE', log.key, -2, -1)
    log.base, log.oldest = tonumber(head[1]), tonumber(head[2])
    log.newest, log.total = tonumber(tail[1]), tonumber(tail[2])
    log.now = max(server_time(), log.newest)
  else
    log.base, log.total, log.now = 0, 0, server_time()
    log.oldest, log.newest = log.now, -1
    log.empty = true
  end
  return log
end

-- Removes the hits up to i from the old end; total(i) becomes the base.
local function drop_hits(log, i)
  if i == 0 then return end
  call('LPOP', log.key, 2 * i)
  local head = call('LRANGE', log.key, 0, 1)
  log.base, log.oldest = tonumber(head[1]), tonumber(head[2])
end

local function append_hit(entry, log)
  log.total = log.total + entry.cost
  log.newest = log.now
  if log.empty then
    call('RPUSH', log.key, 0, log.now, log.total)
    log.empty = false
  else
    call('RPUSH', log.key, log.now, log.total)
  end
  local cutoff = log.now - log.keep * 1000
  if log.oldest <= cutoff then drop_hits(log, last_at_most(log, TIME, cutoff)) end
  if entry.attempts and log.total - log.base > log.keep_units then
    drop_hits(log, last_at_most(log, TOTAL, log.total - log.keep_units))
  end
  -- One millisecond longer than the longest window: TIME may be a moment
  -- ahead of the clock that expiry goes by.
  call('PEXPIRE', log.key, log.keep + 1)
end

local function log_used(entry, limit, at)
  local used = entry.log.total - total_until(entry.log, at - limit.window * 1000)
  if entry.attempts then used = min(used, limit.threshold) end
  return used
end

algorithms.sl = {
  read = function(entry, limit)
    entry.log = entry.log or open_log(entry)
    limit.used = log_used(entry, limit, entry.log.now)
  end,

  spend = function(entry, limit)
    if not entry.log.spent then
      append_hit(entry, entry.log)
      entry.log.spent = true
    end
    limit.used = log_used(entry, limit, entry.log.now)
  end,

  -- The cost fits once the hits up to i have left the window, where i is the
  -- first with total(i) >= total + cost - quota. Measured from the server's
  -- own clock: that is the one the caller waits by.
  fit = function(entry, limit)
    if limit.used + entry.cost <= limit.quota then return 0 end
    local log = entry.log
    local i = last_at_most(log, TOTAL, log.total + entry.cost - limit.quota - 1) + 1
    return tonumber(call('LINDEX', log.key, 2 * i - TIME)) + limit.window * 1000 - server_time()
  end,

  used_in = function(entry, limit, wait)
    return log_used(entry, limit, max(server_time() + wait, entry.log.now))
  end,

  idle = function(entry, limit)
    if limit.used == 0 then return 0 end
    return entry.log.newest + limit.window * 1000 - server_time()
  end,
}
