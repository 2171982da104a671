-- SlidingLog: at most `quota` units in any interval of length `window`, exact
-- to the microsecond. A hit at t stops counting at t + window.
--
-- KEYS     one per entry, shared by all its SlidingLog limits: a log. Before it, if the
--          policy can have requested limits, the largest threshold that the log serves
-- ARGV     per limit: none; per entry: keep (longest window, ms) and keep_units
--          (largest threshold), over all limits and overrides that share the log
-- kept     with one window all that plans admitted within it. Beside charges, counted attempts and further windows:
--          the newest hits whose units reach the largest threshold, or twice that
--          where hits can be refunded, or what a spend has found. Without this bound, one override with a long
--          window would keep all hits that others admit under a short window. A
--          requested limit with a larger threshold is remembered as long as its hits
-- clock    TIME, but never before the newest hit
-- cost     O(log n) LINDEX calls for a window, each of which walks the nodes of the
--          Redis list (8 KiB, about 600 hits); pruning is O(1) amortized
-- denied   writes nothing, with two exceptions: an entry counting attempts appends
--          its hit and drops the oldest beyond keep_units, and a TTL that became
--          too short after an edit to a longer window is extended

-- Microseconds until the log expires. The log must have hits.
local function log_left(entry)
  local log = entry.log
  log.left = log.left or keep_alive(entry, log.key, log.newest + entry.keep * 1000 - server_time())
  return log.left
end

-- Returns the largest threshold that the log serves. An entry whose threshold may be the largest records it.
local function record_largest(entry)
  local largest = entry.largest_key and tonumber(values[entry.largest_key] or 0) or 0
  largest = max(largest, entry.keep_units)
  if entry.enlarges then set_value(entry.largest_key, largest, ttl_of(entry.log.left)) end
  return largest
end

-- Whether a plan admitted or held all that the log has, within one window. Then it counts all, also more units than this
-- plan needs: a plan with a larger threshold has admitted them.
local function counts_all(entry, settles)
  return not entry.attempts and (settles or entry.action <= ACTION_COMMIT) and entry.log.shortest == entry.keep
end

-- Adds a hit, now or as of the microsecond `at`, and drops those that no limit needs. If a plan with a larger threshold
-- has left more, it keeps as many units as it has found, of the oldest hit perhaps a part.
local function add_hit(entry, units, at)
  local log = entry.log
  local found = log.total[UNITS] - log.base[UNITS]
  if not append_hit(log, { units }, entry.keep, nil, at) then return end
  local ceiling = record_largest(entry) * (entry.attempts and 1 or 2)
  local most = log.total[UNITS] - ceiling
  if log.base[UNITS] >= most or counts_all(entry, at) then return end
  local needed = tonumber(log_element(log, last_at_most(log, UNITS, most), UNITS))
  most = min(needed, log.total[UNITS] - found)
  drop_hits(log, last_at_most(log, UNITS, most))
  if log.base[UNITS] < most then
    call('LSET', log.key, 0, most)
    log.base[UNITS] = most
  end
end

algorithms.sl = {
  read = function(entry, limit)
    if not entry.log then
      entry.largest_key = entry.has_largest and next_key()
      entry.log = open_log(next_key(), 2)
    end
    limit.log = entry.log
    entry.log.shortest = min(entry.log.shortest or limit.window, limit.window)
    limit.used = log_units(limit, UNITS, limit.log.now)
  end,

  spend = function(entry, limit)
    local log = entry.log
    if not log.spent then
      add_hit(entry, entry.cost)
      log.spent = true
    end
    limit.used = log_units(limit, UNITS, log.now)
  end,

  settle = function(entry, limit, units, at, i)
    if limit.log.settling == i then return end -- an earlier limit has settled in the shared log
    limit.log.settling = i
    add_hit(entry, units, at)
  end,

  end_settling = function(_, limit)
    limit.log.settling = nil
    limit.used = log_units(limit, UNITS, limit.log.now)
  end,

  after_last = log_after_last,

  time_to_fit = function(entry, limit)
    local wait = log_time_to_fit(limit, limit.used, entry.cost)
    return wait > 0 and min(wait, log_left(entry)) or 0
  end,

  used_after = function(entry, limit, wait)
    if limit.used == 0 or wait >= log_left(entry) then return 0 end
    return log_used_after(limit, UNITS, wait)
  end,

  reset_after = function(entry, limit)
    local reset_after = log_reset_after(limit, limit.used)
    return reset_after > 0 and min(reset_after, log_left(entry)) or 0
  end,

  receipt = log_receipt,

  refund = function(entry, limit, time)
    if limit.log.refunded then return end
    refund_hit(limit.log, UNITS, entry.cost, time, 1)
    limit.log.refunded = true
  end,
}
