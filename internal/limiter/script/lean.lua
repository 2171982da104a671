-- lean: decides calls without the general code: those of one policy whose limits all have functions
-- in the table lean. It leaves to the general code, as they are: calls for blocked keys, checks of keys
-- with holds, denied checks that write, and values of another form.

-- The functions that decide, by action: 0 check; add_hold_actions, of hold_lean.lua, adds 1 reserve and
-- 2 commit. Each gets the run, and the places before the call's values and of its first argument. Nil
-- leaves the call to the general code.
local lean_actions, add_hold_actions = {}, nil

-- Reads the limits that follow ARGV[at]. Returns them, and where they end.
local function lean_limits(at, has_blocks)
  local limits = {}
  for i = 1, tonumber(ARGV[at]) do
    local algorithm = lean[ARGV[at + 1]]
    local limit = {
      quota = tonumber(ARGV[at + 2]), window = tonumber(ARGV[at + 3]),
      read = algorithm.read, spend = algorithm.spend, wait = algorithm.wait,
    }
    at = algorithm.prepare(limit, at + (has_blocks and 5 or 3))
    limits[i] = limit
  end
  return limits, at
end

-- Reads what a run has in common, from its arguments as entry.lua and batch.lua describe them.
local function lean_prepare(first_key, first_arg)
  local flags, entry_flags = tonumber(ARGV[first_arg + 4]), tonumber(ARGV[first_arg + 6])
  local calls, keys = tonumber(ARGV[first_arg + 1]), tonumber(ARGV[first_arg + 2])
  local keeps_holds = entry_flags % 2048 >= 1024
  local run = { calls = calls, own = tonumber(ARGV[first_arg + 3]), first_key = first_key, held = keeps_holds and 2, states = keeps_holds and 2 or 1 }
  local action = floor(entry_flags / 8192)
  if not lean_actions[action] then add_hold_actions() end
  run.decide = lean_actions[action]
  if keeps_holds then run.keep_spent, run.max_open = tonumber(ARGV[first_arg + 7]) * 1000, tonumber(ARGV[first_arg + 8]) end
  run.denies = entry_flags % 2 == 0 and entry_flags % 16 < 8 -- neither counts attempts nor blocks
  run.only_known = entry_flags % 128 >= 64
  run.draws = flags % 8 >= 4 and 1 or 0 -- a draw comes before the cost
  run.step = flags % 16 >= 8 and 0 or keys
  run.last_key = first_key + (run.step == 0 and keys or calls * keys)
  run.limits, run.first_own = lean_limits(first_arg + (keeps_holds and 9 or 7), entry_flags % 16 >= 8)
  run.values = call('MGET', unpack(KEYS, first_key + 1, run.last_key))
  return run
end

-- Spends in every limit. The keys of the limits follow values[at].
local function lean_spend(run, at, own, cost, known)
  local limits, reply = run.limits, { known and 32 or 40, 0, 0 }
  for i = 1, #limits do
    local limit = limits[i]
    local used, reset_after, value = limit.spend(limit, KEYS[run.first_key + at + i], cost, ARGV[own])
    run.values[at + i] = value
    reply[2 * i], reply[2 * i + 1] = used, reset_after
  end
  return reply
end

-- The reply to a call that is denied, and writes nothing; nil leaves it to the general code.
local function lean_deny(run, at, cost)
  local limits, reply = run.limits, { 1 }
  for i = 1, #limits do
    local limit, n = limits[i], #reply
    local used = limit.units
    local retry_after, used_after, reset_after = limit.wait(limit, KEYS[run.first_key + at + i], cost)
    if not retry_after then return nil end
    if cost > limit.quota then retry_after, used_after = -1, used end
    reply[n + 1] = used + cost <= limit.quota and 1 or 0
    reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = used, retry_after, used_after, reset_after
  end
  return reply
end

-- Check: spends the cost.
lean_actions[0] = function(run, at, own)
  local limits, values, known, admitted = run.limits, run.values, false, true
  local cost = tonumber(ARGV[own])
  if values[at + 1] or run.held and values[at + 2] then return nil end
  at = at + run.states
  for i = 1, #limits do
    local limit, value = limits[i], values[at + i]
    local used = limit.read(limit, value)
    if not used then return nil end
    limit.units, known = used, known or value
    admitted = admitted and used + cost <= limit.quota
  end
  if run.only_known and not known then return nil end
  if admitted then return lean_spend(run, at, own, cost, known) end
  return run.denies and lean_deny(run, at, cost) or nil
end

-- Decides the calls of a run, as decide_run does. Returns nil if some have no reply yet. Of calls
-- with the same keys these are the last ones, so that all are decided in order.
local function lean_run(replies, first, first_key, first_arg)
  local run, complete, i = lean_prepare(first_key, first_arg), true, 0
  local function decide_rest()
    while i < run.calls and (complete or run.step > 0) do
      i = i + 1
      local reply = run.decide(run, (i - 1) * run.step, run.first_own + (i - 1) * run.own + run.draws + 1)
      replies[first + i], complete = reply, complete and reply ~= nil
    end
  end
  repeat
    local ok, err = pcall(decide_rest)
    if not ok then replies[first + i] = error_text(err) end
  until ok
  if complete then return run.last_key, run.first_own + run.calls * run.own end
end

