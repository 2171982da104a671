-- decide: reads the call, judges every entry, spends, reports.
--
-- KEYS     per entry: its block key, then what its algorithms take. A block is
--          looked for whatever the limits say: it may be older than the last
--          edit of the policy, or set by hand
-- ARGV     1 if somebody outside the call refused already, else 0; number of
--          entries; then per entry
--            cost, flags (1 attempts, 2 shadow, 4 peek, 8 blocks, 16 log),
--            [keep, keep_units if 16], number of limits, then per limit
--              algorithm, quota, threshold, window (ms), [block (ms), name if 8]
-- returns  a flat array, per entry
--            verdict (0 admitted, 1 refused, 2 blocked before, 3 refused and now blocked),
--            [block left (us), name of the limit that blocked, if verdict >= 2],
--            then per limit: fits (0/1), used, wait (us, -1 never), used after the wait, idle (us)
-- written  nothing for a peek; nothing by an entry that is blocked; nothing by
--          an entry counting admissions when anybody who enforces refuses

local function read_limit(entry)
  local limit = {
    algorithm = algorithms[next_string()],
    quota = next_number(),
    threshold = next_number(),
    window = next_number(),
  }
  if entry.blocks then limit.block, limit.name = next_number(), next_string() end
  limit.algorithm.read(entry, limit)
  limit.fits = limit.used + entry.cost <= limit.quota
  return limit
end

local function read_entry()
  local entry = { block = next_key(), cost = next_number(), admitted = true, limits = {} }
  local flags = next_number()
  entry.attempts = flags % 2 >= 1
  entry.shadow = flags % 4 >= 2
  entry.peek = flags % 8 >= 4
  entry.blocks = flags % 16 >= 8
  local left = call('PTTL', entry.block)
  if left >= 0 then
    entry.verdict, entry.admitted = 2, false
    entry.block_left, entry.blocked_by = (left + 1) * 1000, call('GET', entry.block)
  end
  if flags >= 16 then entry.keep, entry.keep_units = next_number(), next_number() end
  for i = 1, next_number() do
    local limit = read_limit(entry)
    entry.limits[i] = limit
    entry.admitted = entry.admitted and limit.fits
  end
  entry.verdict = entry.verdict or (entry.admitted and 0 or 1)
  return entry
end

-- The longest block among the limits that refuse; it carries the name of the
-- first of them. The TTL is the only record of its end.
local function start_block(entry)
  local longest = 0
  for _, limit in ipairs(entry.limits) do
    if not limit.fits then
      entry.blocked_by = entry.blocked_by or limit.name
      longest = max(longest, limit.block)
    end
  end
  if longest == 0 then return end
  call('SET', entry.block, entry.blocked_by, 'PX', longest)
  entry.verdict, entry.block_left = 3, (longest + 1) * 1000
end

local function spend(entry, anybody_refused)
  if entry.peek or entry.verdict == 2 then return end
  if entry.attempts or (entry.admitted and not anybody_refused) then
    for _, limit in ipairs(entry.limits) do limit.algorithm.spend(entry, limit) end
  end
  if entry.blocks and not entry.admitted then start_block(entry) end
end

local function report(entry, anybody_refused, reply)
  reply[#reply + 1] = entry.verdict
  if entry.verdict >= 2 then
    reply[#reply + 1] = entry.block_left
    reply[#reply + 1] = entry.blocked_by
  end
  for _, limit in ipairs(entry.limits) do
    local wait, used_then = 0, limit.used
    if entry.cost > limit.quota then
      wait = -1
    elseif anybody_refused or not entry.admitted then
      wait = max(limit.algorithm.fit(entry, limit), entry.block_left or 0)
      used_then = limit.algorithm.used_in(entry, limit, wait)
    end
    reply[#reply + 1] = limit.fits and 1 or 0
    reply[#reply + 1] = limit.used
    reply[#reply + 1] = wait
    reply[#reply + 1] = used_then
    reply[#reply + 1] = limit.algorithm.idle(entry, limit)
  end
end

local entries, anybody_refused, reply = {}, next_number() == 1, {}
for i = 1, next_number() do
  entries[i] = read_entry()
  if not (entries[i].admitted or entries[i].shadow) then anybody_refused = true end
end
for _, entry in ipairs(entries) do spend(entry, anybody_refused) end
for _, entry in ipairs(entries) do report(entry, anybody_refused, reply) end
return reply
