-- SlidingWindow, for fast.lua; see sliding_window.lua. An admitted check does not reach the ceiling.

fast.sw = {
  prepare = function(limit, at)
    limit.bucket = ARGV[at + 1] + 0
    return fast_prepare_log(limit, at + 2)
  end,
  read = fast_read_log,
  spend = fast_append_hit,
  wait = fast_log_wait,
}

