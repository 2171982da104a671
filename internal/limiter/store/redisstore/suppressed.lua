-- Suppressed: admits everything below `quota`; above it, sheds the share
-- 1 - quota/observed at random, so that admissions stay near the quota at any load.
-- observed is the cost of all checks of the last window, admitted or not, including
-- this one. Admissions never exceed `hard_quota` in any interval of length `window`.
--
-- KEYS     one per limit: a log of at most window/bucket + 2 hits, with totals of
--          the observed and of the admitted units
-- ARGV     bucket (us); hard_quota
-- clock    TIME, but never before the newest hit
-- cost     as SlidingWindow
-- denied   adds its cost to the observed units, unless the key is blocked

-- The observed units of a bucket saturate at MOST_OBSERVED: only their ratio to the
-- quota matters.
local ADMITTED, MOST_OBSERVED = 1, 2 ^ 41

-- The units observed in the last window. The oldest bucket may lie only partly in
-- the window; its hits are assumed to be spread evenly over the bucket.
local function observed_units(limit)
  local log = limit.log
  local cutoff = log.now - limit.window * 1000
  if cutoff >= log.newest then return 0 end
  local i = cutoff < log.oldest and 0 or last_at_most(log, TIME, cutoff)
  local before = tonumber(log_element(log, i, UNITS) or 0)
  local units = log.total[UNITS] - before
  local last = tonumber(log_element(log, i + 1, TIME))
  local first = last - last % limit.bucket
  if first >= cutoff then return units end
  local oldest = tonumber(log_element(log, i + 1, UNITS)) - before
  return units - oldest * ((cutoff - first) / (last - first))
end

algorithms.su = {
  observes = true,

  prepare = function(limit) limit.bucket, limit.hard_quota = next_number(), next_number() end,

  read = function(entry, limit)
    limit.log = open_log(next_key(), 3)
    limit.used = log_units(limit, ADMITTED, limit.log.now)
    local observed = observed_units(limit) + entry.cost
    limit.suppression = floor(max(0, 1 - limit.quota / observed) * REPLY_MILLIONTHS)
    limit.admits = entry.cost <= limit.quota and limit.used + entry.cost <= limit.hard_quota
    limit.shed = limit.admits and draw * observed >= limit.quota
    limit.admits = limit.admits and not limit.shed
  end,

  spend = function(entry, limit, passes)
    local log = limit.log
    local observed = min(entry.cost, MOST_OBSERVED - bucket_units(log, UNITS, limit.bucket))
    append_hit(log, { observed, passes and (entry.always_admits and observed or entry.cost) or 0 }, limit.window, limit.bucket)
    limit.used = log_units(limit, ADMITTED, log.now)
  end,

  -- Until the observed units leave room for the cost, so that nothing is shed.
  time_to_fit = function(entry, limit)
    return log_time_to_fit(limit, log_units(limit, UNITS, limit.log.now), entry.cost)
  end,

  used_after = function(_, limit, wait) return log_used_after(limit, ADMITTED, wait) end,

  -- Until the last admitted hit leaves the window; later hits may be denied ones.
  reset_after = function(_, limit)
    local log = limit.log
    if limit.used == 0 then return 0 end
    local i = last_at_most(log, ADMITTED, log.total[ADMITTED] - 1) + 1
    return tonumber(log_element(log, i, TIME)) + limit.window * 1000 - server_time()
  end,

  receipt = log_receipt,

  refund = function(entry, limit, time)
    refund_hit(limit.log, ADMITTED, entry.cost, time, limit.bucket)
  end,
}
