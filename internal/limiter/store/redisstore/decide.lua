-- decide: decides the calls of a run. Of each call it evaluates every entry, spends and reports.
-- See batch.lua for keys, arguments and replies.

-- The reply to a call that must not be decided, which writes nothing; nil for others.
local function undecided(entries)
  local reply
  for i = 1, #entries do
    local entry = entries[i]
    if entry.only_known and not entry.known or entry.list_key and list_is_full(entry) then
      reply = reply or { REPLY_UNDECIDED }
      reply[#reply + 1] = i - 1
    end
  end
  return reply
end

-- Sets the verdict of an entry by its limits, its block and, if it reserves, the holds of its key. Entries that always admit
-- are admitted.
local function judge_entry(entry)
  entry.repeats = false
  if entry.always_admits then
    entry.verdict, entry.admitted = VERDICT_ADMITTED, true
    local limits = entry.limits
    for i = 1, #limits do limits[i].admits = true end
    return
  end
  admit(entry)
  entry.verdict, entry.block_left, entry.blocked_by = entry.admitted and VERDICT_ADMITTED or VERDICT_DENIED, nil, nil
  local left, blocked_by = live_block(entry)
  if left >= 0 then
    entry.verdict, entry.admitted = VERDICT_BLOCKED, false
    entry.block_left, entry.blocked_by = (left + 1) * 1000, blocked_by
  end
  if entry.reserves then entry.repeats = holds.judge_reserve(entry) end
end

-- Admits the entries of a call that repeats another one, if that call has spent or held their
-- cost.
local function admit_repeated(entries)
  for i = 1, #entries do
    local entry = entries[i]
    if entry.repeats or not entry.reserves then
      entry.repeats, entry.verdict, entry.admitted = true, VERDICT_ADMITTED, true
      entry.block_left = nil
      for _, limit in ipairs(entry.limits) do limit.admits = true end
    end
  end
end

-- The number of blocks that the limit has started and remembers.
local function blocks_of(limit) return tonumber(values[limit.block_count_key] or 0) or 0 end

-- The length in milliseconds of the block that the limit starts.
local function block_length(limit)
  if not limit.lengths then return limit.block_millis end
  return limit.lengths[min(blocks_of(limit) + 1, #limit.lengths)]
end

-- Whether the limit denies by itself: neither by chance nor because of holds.
local function denies(entry, limit)
  return not limit.admits and not limit.shed and not (entry.open_holds > 0 and holds.waits(entry, limit))
end

-- Whether the quota of the limit is spent. Held units do not count.
local function is_full(_, limit) return limit.used >= limit.quota end

-- Starts the longest block of the limits that `may_start` selects, named after the first of them. The TTL is the only
-- record of its end.
local function start_block(entry, may_start)
  local longest, name, escalating = 0, nil, {}
  for _, limit in ipairs(entry.limits) do
    if may_start(entry, limit) then
      name = name or limit.name
      longest = max(longest, block_length(limit))
      if limit.lengths then escalating[#escalating + 1] = limit end
    end
  end
  if longest == 0 then return end
  for _, limit in ipairs(escalating) do
    local blocks = blocks_of(limit)
    set_value(limit.block_count_key, max(blocks, min(blocks + 1, #limit.lengths)), exact_ttl(longest + limit.remembers))
  end
  local ttl = exact_ttl(longest)
  write_block(entry, name, ttl)
  entry.verdict, entry.block_left, entry.blocked_by = VERDICT_BLOCK_STARTED, (ttl + 1) * 1000, name
  entry.began = not entry.known
end

-- Spends in every limit that counts the check.
local function spend_limits(entry, passes)
  local limits = entry.limits
  for i = 1, #limits do
    local limit = limits[i]
    local algorithm = limit.algorithm
    if algorithm.spend and (entry.attempts or passes or algorithm.observes) then
      algorithm.spend(entry, limit, passes)
      entry.began = not entry.known
    end
  end
  if entry.list_key and passes then list_state(entry) end
end

-- Writes what the entry of a decided call writes: spent units, a hold, a block. `denied` is true if an enforcing entry
-- denies the call.
local function spend(entry, denied)
  entry.began = false
  if entry.peek or entry.precheck or entry.verdict == VERDICT_BLOCKED or entry.repeats then return end
  if entry.always_admits then
    local spent = holds.change(entry)
    entry.began = spent and not entry.known
    if spent and entry.on_commit and entry.action ~= ACTION_CHARGE and live_block(entry) < 0 then
      start_block(entry, is_full)
    end
    return
  end
  local passes = entry.admitted and not denied
  if not entry.reserves then
    spend_limits(entry, passes)
  elseif passes then
    holds.take(entry, entry.cost)
    if entry.list_key then list_state(entry) end -- the hold keeps the state longer
    entry.began = not entry.known
  end
  if entry.has_blocks and not entry.on_commit and not entry.admitted then start_block(entry, denies) end
end

-- The wait in microseconds if only holds keep the cost from fitting. A commit may end them at any time.
local HOLDS_WAIT = 1000000

-- Microseconds until the cost fits, and whether only holds keep it from fitting.
local function time_to_fit(entry, limit)
  local held = entry.held_units
  if held == 0 then return limit.algorithm.time_to_fit(entry, limit), false end
  if limit.admits then return 0, false end
  if limit.used + entry.cost <= limit.quota then return HOLDS_WAIT, true end
  if entry.cost + held > limit.quota then
    return max(limit.algorithm.time_to_fit(entry, limit), HOLDS_WAIT), false
  end
  entry.cost = entry.cost + held
  local wait = limit.algorithm.time_to_fit(entry, limit)
  entry.cost = entry.cost - held
  return wait, false
end

-- Microseconds until nothing is used, at the latest.
local function reset_after(entry, limit)
  local algorithm = limit.algorithm
  local wait = algorithm.reset_after(entry, limit)
  if entry.held_units == 0 then return wait end
  return max(wait, algorithm.after_last(entry, limit, wait))
end

-- Appends the report of one limit after reply[n], and returns the new length. `denied` is true if the entry or the
-- call is denied.
local function report_limit(entry, limit, denied, reply, n)
  local used, held = limit.used, entry.held_units
  local retry_after, used_after, waits = 0, used, false
  if entry.always_admits or entry.repeats then
    retry_after = 0
  elseif entry.cost > limit.quota then
    retry_after = -1
  elseif denied then
    retry_after, waits = time_to_fit(entry, limit)
    retry_after = max(retry_after, entry.block_left or 0)
    used_after = limit.algorithm.used_after(entry, limit, retry_after)
  end
  reply[n + 1] = limit.admits and ADMITS_COST or limit.shed and ADMITS_BUT_SHEDS or waits and ADMITS_AFTER_HOLDS or ADMITS_NOT
  reply[n + 2] = used + held
  reply[n + 3] = retry_after
  reply[n + 4] = used_after + held
  reply[n + 5] = reset_after(entry, limit)
  if not limit.suppression then return n + 5 end
  reply[n + 6] = limit.suppression
  return n + 6
end

-- Appends the report of an entry to the reply, see batch.lua.
local function report(entry, denied, receipts, reply)
  local n = #reply + 1
  local verdict = entry.verdict
  local reports_holds = entry.open_holds > 0 or entry.action ~= ACTION_CHECK or entry.has_settled
  reply[n] = verdict + (entry.began and REPORT_BEGAN or 0) + (reports_holds and REPORT_HOLDS or 0)
    + (entry.repaired and REPORT_REPAIRED or 0)
  if verdict >= VERDICT_BLOCKED then
    reply[n + 1], reply[n + 2] = entry.block_left, entry.blocked_by
    n = n + 2
  end
  if reports_holds then n = holds.report(entry, reply, n) end
  denied = denied or not entry.admitted
  local limits = entry.limits
  for i = 1, #limits do
    local limit = limits[i]
    n = report_limit(entry, limit, denied, reply, n)
    if receipts then
      local receipt = limit.algorithm.receipt
      n = n + 1
      reply[n] = receipt and receipt(entry, limit) or 0
    end
  end
end

-- Whether the call that is being decided may have written.
local may_have_written

-- Decides the next call of a run.
local function decide_call(run)
  may_have_written = false
  local entries, denied = run.entries, run.denied
  if run.draws then draw = next_call_number() / 2 ^ 32 end
  for i = 1, #entries do read_entry(entries[i]) end
  local reasons = not run.receipts and undecided(entries)
  if reasons then return reasons end
  local repeated = run.repeated
  for i = 1, #entries do
    local entry = entries[i]
    may_have_written = may_have_written or entry.open_holds > 0
    entry.has_settled = entry.open_holds > 0 and holds.settle(entry)
    judge_entry(entry)
    repeated = repeated or entry.repeats
  end
  if repeated then admit_repeated(entries) end
  for i = 1, #entries do
    if not (entries[i].admitted or entries[i].shadow) then denied = true end
  end
  may_have_written = true
  for i = 1, #entries do
    local entry = entries[i]
    spend(entry, denied)
    if entry.holds_changed then holds.write(entry) end
    entry.repaired, repaired = repaired, false
  end
  local reply = {}
  for i = 1, #entries do report(entries[i], denied, run.receipts, reply) end
  return reply
end

-- Decides the next call of a run. An error, such as a key of another type, ends only this call. Its
-- text begins with REPLY_UNWRITTEN if the call has written nothing.
local function decide_call_or_fail(run)
  local ok, reply = pcall(decide_call, run)
  if ok then return reply end
  logs = {}
  return (may_have_written and '' or REPLY_UNWRITTEN) .. error_text(reply)
end

-- The places of the next replies.
local function next_places(calls)
  local places = {}
  for i = 1, calls do places[i] = replied + i end
  replied = replied + calls
  return places
end

-- Makes the deferred writes. An error replaces the replies at the places, and a repair is added to one of them.
local function end_run(places)
  local ok, err = pcall(write_deferred)
  for _, place in pairs(places) do
    local reply = replies[place]
    if not ok then
      replies[place] = error_text(err)
    elseif repaired and type(reply) == 'table' and reply[1] ~= REPLY_UNDECIDED then
      reply[1], repaired = reply[1] + REPORT_REPAIRED, false
    end
  end
end

-- Decides calls of a run, which begins after KEYS[before_key] and ARGV[before_arg]. `places` has the places of the
-- replies to the calls to decide, by call; nil means all calls. Returns where the run ends in KEYS and in
-- ARGV. Each call sets the cursors itself: the previous one may have ended with an error.
local function decide_run(before_key, before_arg, places)
  key_at, arg_at = before_key, before_arg
  local calls, keys, call_args = next_number(), next_number(), next_number()
  local flags = next_number()
  local same_keys, same_args = band(flags, RUN_SAME_KEYS) ~= 0, band(flags, RUN_SAME_ARGS) ~= 0
  local run = {
    denied = band(flags, RUN_DENIED) ~= 0,
    receipts = band(flags, RUN_RECEIPTS) ~= 0,
    draws = band(flags, RUN_DRAWS) ~= 0,
    repeated = band(flags, RUN_REPEATED) ~= 0,
    entries = prepare_entries(),
  }
  local last_key, before_call_args = key_at + (same_keys and keys or calls * keys), arg_at
  deferred, logs = same_keys and {} or nil, {}
  load_values(before_key + 1, last_key)
  places = places or next_places(calls)
  for i = 1, calls do
    if places[i] then
      key_at, call_arg_at = before_key + (same_keys and 0 or i - 1) * keys, before_call_args + (same_args and 0 or i - 1) * call_args
      replies[places[i]] = decide_call_or_fail(run)
    end
  end
  if deferred then end_run(places) end
  return last_key, before_call_args + (same_args and call_args or calls * call_args)
end

return decide_run
