-- log, for fast.lua; see log.lua. The table of a limit is also the table of its log, which has one kind of units
-- and keeps them for the window of this limit only. Arguments of commands are texts where they can be, since
-- Redis is slow to write numbers of Lua.

-- Reads the ends of the log. limit.head has its first elements: totals(0) time(1) totals(1) time(2) totals(2)
-- time(3). Returns false for a key of another type, or without a hit.
local function fast_open_log(limit, key)
  local now, head = server_time(), try_call('LRANGE', key, '0', '5')
  if head.err or head[1] and not head[2] then return false end
  limit.key, limit.exists, limit.head = key, head[2], head
  if not head[2] then
    limit.base, limit.oldest, limit.newest, limit.total, limit.now = 0, now, -1, 0, now
    return true
  end
  local last = #head
  local tail = last < 6 and head or call('LRANGE', key, '-2', '-1')
  if last == 6 then last = 2 end
  limit.base, limit.oldest, limit.newest, limit.total = head[1] + 0, head[2] + 0, tail[last - 1] + 0, tail[last] + 0
  limit.now = max(now, limit.newest)
  return true
end

-- As read, see base.lua. Also sets limit.left_window, the number of hits that have left the window, -1 if all
-- have, and limit.before, the total until the last of them. Reuses the log that the previous call has read.
local function fast_read_log(limit, _, key)
  if limit.key ~= key and not fast_open_log(limit, key) then return nil end
  if limit.total + limit.quota > SUM_LARGEST then return nil end
  local cutoff = limit.now - limit.window_us
  if limit.newest <= cutoff then
    limit.left_window, limit.before = -1, limit.total
  elseif limit.oldest > cutoff then
    limit.left_window, limit.before = 0, limit.base
  elseif limit.head[4] + 0 > cutoff then
    limit.left_window, limit.before = 1, limit.head[3] + 0
  elseif limit.head[6] + 0 > cutoff then
    limit.left_window, limit.before = 2, limit.head[5] + 0
  else
    local i = last_at_most(limit, TIME, cutoff, 1)
    limit.left_window, limit.before = i, call('LINDEX', key, 2 * i) + 0
  end
  return limit.total - limit.before
end

-- As spend, see base.lua. With a bucket, in microseconds, the hit is merged with the newest one if that
-- is in the same bucket of time.
local function fast_append_hit(limit, key, cost)
  local now, newest, bucket, total = limit.now, limit.newest, limit.bucket, limit.total + cost
  if now ~= limit.time then limit.time, limit.time_text = now, string.format('%d', now) end
  local total_text = string.format('%d', total)
  if not limit.exists then
    call('RPUSH', key, '0', limit.time_text, total_text)
    limit.oldest = now
  else
    if bucket and floor(newest / bucket) == floor(now / bucket) then
      call('RPOP', key, '2')
    end
    call('RPUSH', key, limit.time_text, total_text)
  end
  if limit.left_window > 0 then
    call('LTRIM', key, limit.left_window == 1 and '2' or 2 * limit.left_window, '-1')
    limit.key = nil -- the oldest hit is not known any more
  elseif limit.left_window < 0 and limit.exists then
    call('LTRIM', key, '-3', '-1') -- the total of all hits, and the new one
    limit.base, limit.oldest = limit.total, now
  end
  limit.exists, limit.newest, limit.total = true, now, total
  local left = now + limit.window_us - server_time()
  call('PEXPIRE', key, left == limit.window_us and limit.ttl_text or ttl_of(left))
  return total - limit.before, left
end

-- As wait, see base.lua.
local function fast_log_wait(limit, key, cost)
  if limit.units == 0 then return 0, 0, 0 end
  local now, wait, used_after = server_time(), 0, limit.units
  if limit.units + cost > limit.quota and cost <= limit.quota then
    local i
    wait, i = log_wait(limit, limit.total + cost - limit.quota, limit.window_us, limit.left_window)
    local bound = max(now + wait, limit.now) - limit.window_us
    used_after = 0
    if bound < limit.newest then
      used_after = limit.total - call('LINDEX', key, 2 * last_at_most(limit, TIME, bound, i))
    end
  end
  return wait, used_after, limit.newest + limit.window_us - now
end

local function fast_prepare_log(limit, at)
  limit.width, limit.window_us = 2, limit.window * 1000
  limit.ttl_text = string.format('%d', ttl_of(limit.window_us))
  return at
end

