-- decide: decides a batch of calls of different callers, one after the other at one
-- instant, as if each had come alone. Of each call it evaluates every entry, spends
-- and reports.
--
-- KEYS     per call the keys of its entries. The block key is always read: a block
--          may be older than the last edit of the policy, or set by an operator
-- ARGV     number of runs; per run of successive calls with the same policies
--            number of calls, of the keys and of the own arguments of one call;
--            flags (1 the calls are denied already, outside the call; 2 return
--            receipts; 4 the calls have draws; 8 all calls have the same keys, which
--            are in KEYS once); number of entries; the entries;
--            per call [the caller's draw, 0..2^32-1]; per entry its own arguments
-- returns  per call the text of the error that ended it; or -1 and the indexes of the
--          entries that prevented a decision, being unknown or without room for their
--          state; or a flat array, per entry
--            verdict (0 admitted, 1 denied, 2 already blocked, 3 denied and now blocked;
--            8 more if the call began the first state of the key),
--            [block left (us), name of the limit that blocked, if verdict >= 2],
--            then per limit: admits (0 no, 1 yes, 2 shed at random), used, retry after
--            (us, -1 never), used after that time, reset after (us), [share of checks
--            that is shed, in millionths, if Suppressed], [receipt, if wanted]
-- writes   nothing for a peek. For a blocked entry at most a repair: a TTL or an
--          arrival time that an edit or a clock change made wrong. When an enforcing
--          entry denies, an entry that counts admissions writes only such repairs,
--          what its algorithm observes and, if it is denied itself, its block

-- The reply to a call that must not be decided, which writes nothing; nil for others.
local function undecided(entries)
  local reply
  for i = 1, #entries do
    local entry = entries[i]
    if entry.only_known and not entry.known or entry.list and list_is_full(entry) then
      reply = reply or { -1 }
      reply[#reply + 1] = i - 1
    end
  end
  return reply
end

local function judge(entry)
  entry.verdict, entry.block_left, entry.blocked_by = entry.admitted and 0 or 1, nil, nil
  local blocked_by = values[entry.block]
  local left = blocked_by and time_left(entry.block) or -1
  if left < 0 then return end
  entry.verdict, entry.admitted = 2, false
  entry.block_left, entry.blocked_by = (left + 1) * 1000, blocked_by
end

-- Starts the longest block of the limits that do not admit the cost, named after the
-- first of them. The TTL is the only record of its end. Random shedding starts no block.
local function start_block(entry)
  local longest, name = 0, nil
  for _, limit in ipairs(entry.limits) do
    if not limit.admits and not limit.shed then
      name = name or limit.name
      longest = max(longest, limit.block)
    end
  end
  if longest == 0 then return end
  set_value(entry.block, name, longest)
  entry.verdict, entry.block_left, entry.blocked_by = 3, (longest + 1) * 1000, name
  entry.began = not entry.known
end

local function spend(entry, denied)
  entry.began = false
  if entry.peek or entry.dry_run or entry.verdict == 2 then return end
  local passes = entry.admitted and not denied
  local limits = entry.limits
  for i = 1, #limits do
    local limit = limits[i]
    if entry.attempts or passes or limit.algorithm.observes then
      limit.algorithm.spend(entry, limit, passes)
      entry.began = not entry.known
    end
  end
  if entry.list and passes then list_state(entry) end
  if entry.blocks and not entry.admitted then start_block(entry) end
end

-- Appends the report of one limit after reply[n] and returns the new length.
local function report_limit(entry, limit, denied, reply, n)
  local algorithm, used = limit.algorithm, limit.used
  local retry_after, used_after = 0, used
  if entry.cost > limit.quota then
    retry_after = -1
  elseif denied then
    retry_after = max(algorithm.time_to_fit(entry, limit), entry.block_left or 0)
    used_after = algorithm.used_after(entry, limit, retry_after)
  end
  reply[n + 1] = limit.admits and 1 or limit.shed and 2 or 0
  reply[n + 2] = used
  reply[n + 3] = retry_after
  reply[n + 4] = used_after
  reply[n + 5] = algorithm.reset_after(entry, limit)
  if not limit.suppression then return n + 5 end
  reply[n + 6] = limit.suppression
  return n + 6
end

local function report(entry, denied, receipts, reply)
  local n = #reply + 1
  reply[n] = entry.began and entry.verdict + 8 or entry.verdict
  if entry.verdict >= 2 then
    reply[n + 1], reply[n + 2] = entry.block_left, entry.blocked_by
    n = n + 2
  end
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

-- Decides the next call of a run.
local function decide(run)
  local entries, denied = run.entries, run.denied
  if run.draws then draw = next_own_number() / 2 ^ 32 end
  for i = 1, #entries do
    local entry = entries[i]
    read_entry(entry)
    judge(entry)
    if not (entry.admitted or entry.shadow) then denied = true end
  end
  local reasons = not run.receipts and undecided(entries)
  if reasons then return reasons end
  for i = 1, #entries do spend(entries[i], denied) end
  local reply = {}
  for i = 1, #entries do report(entries[i], denied, run.receipts, reply) end
  return reply
end

local function error_text(err)
  return type(err) == 'table' and err.err or tostring(err)
end

-- Decides the calls of the next run. An error, such as a key of another type, ends its
-- call and not the others: the cursors go to the next call wherever it stopped.
local function decide_run(replies)
  local calls, keys, own = next_number(), next_number(), next_number()
  local flags = next_number()
  local run = {
    denied = flags % 2 >= 1,
    receipts = flags % 4 >= 2,
    draws = flags % 8 >= 4,
    entries = prepare_entries(),
  }
  local first_key, first_own, first_reply = key_at, arg_at, #replies + 1
  local last_key = first_key + (flags >= 8 and keys or calls * keys)
  local step = flags >= 8 and 0 or keys
  deferred, logs = flags >= 8 and {} or nil, {}
  load_values(first_key + 1, last_key)
  for i = 0, calls - 1 do
    key_at, own_at = first_key + i * step, first_own + i * own
    local ok, reply = pcall(decide, run)
    if not ok then reply, logs = error_text(reply), {} end
    replies[first_reply + i] = reply
  end
  if deferred then
    local ok, err = pcall(write_deferred)
    for i = first_reply, ok and 0 or #replies do replies[i] = error_text(err) end
  end
  key_at, arg_at = last_key, first_own + calls * own
end

local replies = {}
for _ = 1, next_number() do decide_run(replies) end
return replies
