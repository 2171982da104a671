-- SlidingLog, for fast.lua; see sliding_log.lua.

fast.sl = {
  prepare = fast_prepare_log,
  read = fast_read_log,
  spend = fast_append_hit,

  wait = function(limit, key, cost)
    local left = limit.units > 0 and limit.newest + limit.window_us - server_time() or 0
    if left > 0 and (call('PTTL', key) + 1) * 1000 < left then return nil end
    return fast_log_wait(limit, key, cost)
  end,
}

