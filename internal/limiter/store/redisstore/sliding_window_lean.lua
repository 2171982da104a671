-- SlidingWindow, for lean.lua; see sliding_window.lua. An admitted check does not reach the ceiling.

lean.sw = {
  prepare = function(limit, at)
    limit.bucket = ARGV[at + 1] + 0
    return lean_prepare_log(limit, at + 2)
  end,
  read = lean_read_log,
  spend = lean_append_hit,
  wait = lean_log_wait,
}

