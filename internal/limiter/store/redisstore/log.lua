-- log: the hits of a key in order of time, for the sliding algorithms.
--
-- A log is a list
--   totals(0) time(1) totals(1) time(2) totals(2) ... time(n) totals(n)
-- where time(i) is the time of hit i and totals(i) the units of all hits up to and
-- including it, so that the units between two hits are one subtraction. One hit
-- takes 10 to 16 bytes; in a sorted set it would take 120 or more. A hit has `width`
-- elements: its time, and the totals of one or two kinds of units.
--
-- The log's own time is never before its newest hit: a server clock that is set
-- back must not reopen a window. Times to wait are measured from the server's clock,
-- since the caller waits by that clock.

local function log_element(log, i, column)
  return call('LINDEX', log.key, log.width * i + column)
end

-- The units of all hits up to and including time `bound`.
local function total_until(log, column, bound)
  if bound < log.oldest then return log.base[column] end
  if bound >= log.newest then return log.total[column] end
  return tonumber(log_element(log, last_at_most(log, TIME, bound), column))
end

-- A key of another type counts as missing, and so does a list without a hit.
local function read_oldest(log)
  local head = try_call('LRANGE', log.key, 0, log.width - 1)
  if #head < log.width then
    damaged[log.key] = (head.err or head[1]) and true
    return false
  end
  for column = 0, log.width - 2 do log.base[column] = tonumber(head[column + 1]) end
  log.oldest = tonumber(head[log.width])
  return true
end

local function read_newest(log)
  local tail = call('LRANGE', log.key, -log.width, -1)
  log.newest = tonumber(tail[1])
  for column = 0, log.width - 2 do log.total[column] = tonumber(tail[column + 2]) end
end

local function open_log(key, width)
  local log = deferred and logs[key]
  if log then
    log.spent = nil
    return log
  end
  log = { key = key, width = width, base = {}, total = {} }
  logs[key] = log
  if read_oldest(log) then
    read_newest(log)
    log.now = max(server_time(), log.newest)
    return log
  end
  for column = 0, width - 2 do log.base[column], log.total[column] = 0, 0 end
  log.now, log.empty = server_time(), true
  log.oldest, log.newest = log.now, -1
  return log
end

-- Removes the hits up to i from the old end; totals(i) become the base.
local function drop_hits(log, i)
  if i == 0 then return end
  call('LTRIM', log.key, log.width * i, -1) -- LPOP would make a reply of them all
  read_oldest(log)
end

-- Makes the totals count from the oldest hit that is kept.
local function rebase(log)
  local all = call('LRANGE', log.key, 0, -1)
  for i = 1, #all do
    local column = i % log.width
    if column > 0 then all[i] = all[i] - log.base[column - 1] end
  end
  call('DEL', log.key)
  for i = 1, #all, 1000 do call('RPUSH', log.key, unpack(all, i, min(i + 999, #all))) end
  read_oldest(log)
  read_newest(log)
end

-- Records a hit now, or at the time `at` if it is not before the newest hit. units lists the units
-- to add to each total; keep is the time in milliseconds for which the hit is needed: one that is
-- not needed any more is not recorded. With a bucket, in microseconds, a hit in the same bucket of
-- time as the newest one is merged into it. Both then count as long as the later one, so that no
-- hit is dropped too early. Returns whether the hit was recorded.
local function append_hit(log, units, keep, bucket, at)
  local time = at and max(at, log.newest) or log.now
  local left = time + keep * 1000 - server_time()
  if left <= 0 then return false end
  local elements = {}
  if log.empty then
    for column = 0, log.width - 2 do elements[column + 1] = 0 end
    log.oldest, log.empty = time, false
    if damaged[log.key] then
      call('DEL', log.key)
      mark_repaired(log.key)
    end
  elseif bucket and floor(log.newest / bucket) == floor(time / bucket) then
    call('RPOP', log.key, log.width)
    if log.oldest == log.newest then log.oldest = time end
  end
  log.newest, log.left = time, left
  elements[#elements + 1] = time
  for column = 0, log.width - 2 do
    log.total[column] = log.total[column] + units[column + 1]
    elements[#elements + 1] = log.total[column]
  end
  call('RPUSH', log.key, unpack(elements))
  local cutoff = time - keep * 1000
  if log.oldest <= cutoff then drop_hits(log, last_at_most(log, TIME, cutoff)) end
  if log.total[UNITS] > SUM_LARGEST then rebase(log) end
  call('PEXPIRE', log.key, ttl_of(left))
  return true
end

-- The units of the current bucket of time; 0 if the newest hit is in an earlier one.
local function bucket_units(log, column, bucket)
  if log.empty or floor(log.newest / bucket) ~= floor(log.now / bucket) then return 0 end
  local before = call('LINDEX', log.key, column + 1 - 2 * log.width)
  return log.total[column] - tonumber(before or log.base[column])
end

local function log_units(limit, column, at)
  return limit.log.total[column] - total_until(limit.log, column, at - limit.window * 1000)
end

-- Microseconds until the cost fits.
local function log_time_to_fit(limit, used, cost)
  if used + cost <= limit.quota then return 0 end
  return (log_wait(limit.log, limit.log.total[UNITS] + cost - limit.quota, limit.window * 1000))
end

local function log_used_after(limit, column, wait)
  return log_units(limit, column, max(server_time() + wait, limit.log.now))
end

-- Microseconds until all `used` units have left the window.
local function log_reset_after(limit, used)
  if used == 0 then return 0 end
  return limit.log.newest + limit.window * 1000 - server_time()
end

-- Microseconds until nothing is used, at the latest, if the holds are spent as the last one ends.
local function log_after_last(entry, limit)
  return holds.last_end(entry) + limit.window * 1000
end

-- The time of the hit that was recorded.
local function log_receipt(_, limit)
  return limit.log.newest
end

-- Refunds units of the hit at that time, or in the same bucket of time. The totals of
-- later hits include these units too. If the hit has left the log, or the log was
-- reset, its units are gone already.
local function refund_hit(log, column, units, time, bucket)
  if log.empty then return end
  local i = last_at_most(log, TIME, time - 1)
  local found = tonumber(log_element(log, i + 1, TIME) or -1)
  if floor(found / bucket) ~= floor(time / bucket) then return end
  local minimum = tonumber(log_element(log, i, column))
  while true do
    i = i + 1
    local total = log_element(log, i, column)
    if not total then return end
    minimum = max(total - units, minimum)
    call('LSET', log.key, log.width * i + column, minimum)
  end
end
