-- fast: decides checks without the general path, if they are by one policy whose limits all have functions
-- in the table fast; of peeks only those that are denied. The general path decides:
--   - checks of blocked keys, of keys with the holds of another plan, and some of keys with holds, see hold_fast.lua
--   - denied checks that write
--   - checks whose values have another form

-- The replies, see batch.lua, and the number of their values.
local replies, replied = {}, 0

-- The reply to a call that is denied, and writes nothing; nil leaves it to the general path.
local function fast_deny(run, at, cost)
  local limits, reply = run.limits, { VERDICT_DENIED }
  for i = 1, #limits do
    local limit, n = limits[i], #reply
    local used = limit.units
    local retry_after, used_after, reset_after = limit.wait(limit, KEYS[run.before_key + at + i], cost)
    if not retry_after then return nil end
    if cost > limit.quota then retry_after, used_after = -1, used end
    reply[n + 1] = used + cost <= limit.quota and ADMITS_COST or ADMITS_NOT
    reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = used, retry_after, used_after, reset_after
  end
  return reply
end

-- Decides a check of the run, whose values and keys begin after place `at` of the run, and whose cost is
-- ARGV[cost_at]. Returns true after it has replied with a short report, or an array to reply with; nil leaves the
-- check to the general path.
local function fast_check(run, at, cost_at)
  local limits, values, known, admitted = run.limits, run.values, false, true
  local block = values[at + 1]
  if block and not (run.keeps_holds and block == BLOCK_MARK) then return nil end
  local summary = run.keeps_holds and values[at + 2]
  at = at + run.entry_values
  if summary then return fast_check_beside_holds(run, at, cost_at, summary) end
  local text, before_key, n = ARGV[cost_at], run.before_key + at, replied + 1
  if text ~= run.cost_text then run.cost_text, run.cost = text, text + 0 end -- most calls of a run have the same
  local cost = run.cost
  for i = 1, #limits do
    local limit = limits[i]
    local used = limit.read(limit, values[at + i], KEYS[before_key + i])
    if not used then return nil end
    limit.units, known = used, known or limit.exists
    admitted = admitted and used + cost <= limit.quota
  end
  if run.only_known and not known then return nil end
  if not admitted then return run.denies and fast_deny(run, at, cost) or nil end
  if run.peeks then return nil end
  replies[n] = known and REPORT_SHORT or REPORT_SHORT + REPORT_BEGAN
  for i = 1, #limits do
    local limit = limits[i]
    replies[n + 1], replies[n + 2], values[at + i] = limit.spend(limit, KEYS[before_key + i], cost, text)
    n = n + 2
  end
  if repaired then replies[replied + 1], repaired = replies[replied + 1] + REPORT_REPAIRED, false end
  replied = n
  return true
end

-- Reads the limits, whose number is ARGV[at]. Returns them, and the place of their last argument.
local function fast_limits(at, has_blocks)
  local limits = {}
  for i = 1, ARGV[at] do
    local algorithm = fast[ARGV[at + 1]]
    local limit = {
      quota = ARGV[at + 2] + 0, window = ARGV[at + 3] + 0,
      read = algorithm.read, counts_from_first = algorithm.counts_from_first, spend = algorithm.spend, wait = algorithm.wait,
      units = 0, exists = false, rate = false, -- with these Lua has room for what prepare and read add
    }
    at = algorithm.prepare(limit, at + (has_blocks and 5 or 3))
    limits[i] = limit
  end
  return limits, at
end

-- Reads what the calls of a run have in common. The keys of the run begin after KEYS[before_key], its arguments,
-- which batch.lua and entry.lua describe, after ARGV[before_arg]. All fields have a value here, since Lua makes
-- room for them only once. `flags % (2 * FLAG) >= FLAG` takes Redis less time than band.
local function fast_prepare(before_key, before_arg)
  local flags, entry_flags = ARGV[before_arg + AT_RUN_FLAGS] + 0, ARGV[before_arg + AT_ENTRY_FLAGS] + 0
  local calls, keys, call_args = ARGV[before_arg + AT_CALLS] + 0, ARGV[before_arg + AT_KEYS] + 0, ARGV[before_arg + AT_CALL_ARGS] + 0
  local keeps_holds, limits_at, keep_after_end = entry_flags % (2 * ENTRY_HOLDS) >= ENTRY_HOLDS, before_arg + AT_ENTRY_FLAGS + 1, 0
  if entry_flags % (2 * ENTRY_LOG) >= ENTRY_LOG then limits_at = limits_at + 2 end -- skips keep and keep_units
  if keeps_holds then keep_after_end, limits_at = ARGV[limits_at] * 1000, limits_at + 2 end -- skips the most open holds
  local has_blocks = entry_flags % (2 * ENTRY_BLOCKS) >= ENTRY_BLOCKS
  local limits, before_call_args = fast_limits(limits_at, has_blocks)
  local same_keys, same_args = flags % (2 * RUN_SAME_KEYS) >= RUN_SAME_KEYS, flags % (2 * RUN_SAME_ARGS) >= RUN_SAME_ARGS
  local last_key = before_key + (same_keys and keys or calls * keys)
  return {
    calls = calls, decided = 0, undecided = false, before_key = before_key, last_key = last_key,
    step = same_keys and 0 or keys, arg_step = same_args and 0 or call_args,
    cost_at = before_call_args + (flags % (2 * RUN_DRAWS) >= RUN_DRAWS and 2 or 1), -- a draw comes before the cost
    last_arg = before_call_args + (same_args and call_args or calls * call_args),
    denies = entry_flags % (2 * ENTRY_ATTEMPTS) < ENTRY_ATTEMPTS and not has_blocks, -- neither counts attempts nor blocks
    peeks = entry_flags % (2 * ENTRY_PEEK) >= ENTRY_PEEK,
    only_known = entry_flags % (2 * ENTRY_ONLY_KNOWN) >= ENTRY_ONLY_KNOWN,
    keeps_holds = keeps_holds, keep_after_end = keep_after_end,
    limits = limits, entry_values = keeps_holds and 2 or 1, -- the block and the holds, before the values of the limits
    values = call('MGET', unpack(KEYS, before_key + 1, last_key)),
    cost_text = false, cost = 0,
  }
end

-- Decides the calls of a run, from the first that has no reply yet. run.undecided gets the places of the replies
-- to the calls that it leaves to the general path. If the calls have the same keys, it leaves also all later calls,
-- so that they are decided in order.
local function fast_calls(run)
  local step, cost_at, arg_step = run.step, run.cost_at, run.arg_step
  for i = run.decided + 1, run.calls do
    run.decided = i
    local reply = (step > 0 or not run.undecided) and fast_check(run, (i - 1) * step, cost_at + (i - 1) * arg_step)
    if reply ~= true then
      replied = replied + 1
      replies[replied] = reply or false
      if not reply then
        run.undecided = run.undecided or {}
        run.undecided[i] = replied
      end
    end
  end
end

-- Decides the calls of a run, except those in the places that it returns. Returns where the run ends in KEYS and
-- in ARGV, and the places of the replies to the calls that decide_run must decide, by call, or false.
local function fast_run(before_key, before_arg)
  local run = fast_prepare(before_key, before_arg)
  repeat
    local ok, err = pcall(fast_calls, run)
    if not ok then
      replied = replied + 1
      replies[replied] = error_text(err)
    end
  until ok
  for n = #replies, replied + 1, -1 do replies[n] = nil end -- of a call that ended with an error
  return run.last_key, run.last_arg, run.undecided
end
