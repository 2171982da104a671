-- SlidingWindow: at most `quota` units in any interval of length `window`, counted
-- in buckets: hits in one bucket of time are stored as one, which counts as long as
-- the latest of them. So it may deny for less than a bucket longer than SlidingLog
-- does, and never admits more.
--
-- KEYS     one per limit: a log of at most window/bucket + 2 hits
-- ARGV     bucket (us); ceiling: where a bucket of counted attempts saturates
-- clock    TIME, but never before the newest hit
-- cost     as SlidingLog, over the buckets
-- denied   writes nothing, except that an entry counting attempts adds its cost
--          until the bucket reaches `ceiling`

-- Commits and charges saturate a bucket here, so that the totals of a log stay integers.
local MOST_CHARGED = 2 ^ 41

algorithms.sw = {
  prepare = function(limit) limit.bucket, limit.ceiling = next_number(), next_number() end,

  read = function(_, limit)
    limit.log = open_log(next_key(), 2)
    limit.used = log_units(limit, UNITS, limit.log.now)
  end,

  spend = function(entry, limit)
    local units, most = entry.cost, entry.attempts and limit.ceiling or entry.always_admits and MOST_CHARGED
    if most then -- the bucket may already hold more than this variant's ceiling
      units = max(0, min(units, most - bucket_units(limit.log, UNITS, limit.bucket)))
    end
    append_hit(limit.log, { units }, limit.window, limit.bucket)
    limit.used = log_units(limit, UNITS, limit.log.now)
  end,

  settle = function(_, limit, units, at)
    append_hit(limit.log, { units }, limit.window, limit.bucket, at)
  end,

  end_settling = function(_, limit) limit.used = log_units(limit, UNITS, limit.log.now) end,

  after_last = log_after_last,

  time_to_fit = function(entry, limit) return log_time_to_fit(limit, limit.used, entry.cost) end,

  used_after = function(_, limit, wait) return log_used_after(limit, UNITS, wait) end,

  reset_after = function(_, limit) return log_reset_after(limit, limit.used) end,

  receipt = log_receipt,

  refund = function(entry, limit, time)
    refund_hit(limit.log, UNITS, entry.cost, time, limit.bucket)
  end,
}
