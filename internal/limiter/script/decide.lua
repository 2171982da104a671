-- decide: decides a batch of calls of different callers, one after the other at one
-- instant, as if each had come alone. Of each call it evaluates every entry, spends
-- and reports.
--
-- KEYS     per call the keys of its entries. The block key is always read: a block
--          may be older than the last edit of the policy, or set by an operator
-- ARGV     number of calls; per call
--            number of its keys, number of the arguments that follow;
--            flags (1 the check is denied already, outside the call; 2 return
--            receipts); the caller's draw, 0..2^32-1; number of entries; the entries
-- returns  per call the text of the error that ended it, or a flat array, per entry
--            verdict (0 admitted, 1 denied, 2 already blocked, 3 denied and now blocked),
--            [block left (us), name of the limit that blocked, if verdict >= 2],
--            then per limit: admits (0 no, 1 yes, 2 shed at random), used, retry after
--            (us, -1 never), used after that time, reset after (us), [share of checks
--            that is shed, in millionths, if Suppressed], [receipt, if wanted]
-- writes   nothing for a peek. For a blocked entry at most a repair: a TTL or an
--          arrival time that an edit or a clock change made wrong. When an enforcing
--          entry denies, an entry that counts admissions writes only such repairs,
--          what its algorithm observes and, if it is denied itself, its block

local function judge(entry)
  local left = call('PTTL', entry.block)
  if left >= 0 then
    entry.verdict, entry.admitted = 2, false
    entry.block_left, entry.blocked_by = (left + 1) * 1000, call('GET', entry.block)
  else
    entry.verdict = entry.admitted and 0 or 1
  end
end

-- Starts the longest block of the limits that do not admit the cost, named after the
-- first of them. The TTL is the only record of its end. Random shedding starts no block.
local function start_block(entry)
  local longest = 0
  for _, limit in ipairs(entry.limits) do
    if not limit.admits and not limit.shed then
      entry.blocked_by = entry.blocked_by or limit.name
      longest = max(longest, limit.block)
    end
  end
  if longest == 0 then return end
  call('SET', entry.block, entry.blocked_by, 'PX', longest)
  entry.verdict, entry.block_left = 3, (longest + 1) * 1000
end

local function spend(entry, denied)
  if entry.peek or entry.dry_run or entry.verdict == 2 then return end
  local passes = entry.admitted and not denied
  for _, limit in ipairs(entry.limits) do
    if entry.attempts or passes or limit.algorithm.observes then
      limit.algorithm.spend(entry, limit, passes)
    end
  end
  if entry.blocks and not entry.admitted then start_block(entry) end
end

local function report_limit(entry, limit, denied, reply)
  local retry_after, used_after = 0, limit.used
  if entry.cost > limit.quota then
    retry_after = -1
  elseif denied then
    retry_after = max(limit.algorithm.time_to_fit(entry, limit), entry.block_left or 0)
    used_after = limit.algorithm.used_after(entry, limit, retry_after)
  end
  reply[#reply + 1] = limit.admits and 1 or limit.shed and 2 or 0
  reply[#reply + 1] = limit.used
  reply[#reply + 1] = retry_after
  reply[#reply + 1] = used_after
  reply[#reply + 1] = limit.algorithm.reset_after(entry, limit)
  if limit.suppression then reply[#reply + 1] = limit.suppression end
end

local function report(entry, denied, receipts, reply)
  reply[#reply + 1] = entry.verdict
  if entry.verdict >= 2 then
    reply[#reply + 1] = entry.block_left
    reply[#reply + 1] = entry.blocked_by
  end
  for _, limit in ipairs(entry.limits) do
    report_limit(entry, limit, denied or not entry.admitted, reply)
    if receipts then
      local receipt = limit.algorithm.receipt
      reply[#reply + 1] = receipt and receipt(entry, limit) or 0
    end
  end
end

local function decide()
  local flags = next_number()
  local denied, receipts = flags % 2 >= 1, flags >= 2
  draw = next_number() / 2 ^ 32
  local entries, reply = {}, {}
  for i = 1, next_number() do
    local entry = read_entry()
    judge(entry)
    entries[i] = entry
    if not (entry.admitted or entry.shadow) then denied = true end
  end
  for _, entry in ipairs(entries) do spend(entry, denied) end
  for _, entry in ipairs(entries) do report(entry, denied, receipts, reply) end
  return reply
end

-- Decides the next call, by the lean function of its algorithm if it has a single entry
-- and that function takes it.
local function decide_lean_or_full()
  local keys, args = key_at, arg_at
  if ARGV[args + 1] == '0' and ARGV[args + 3] == '1' then
    local decide_lean = lean[ARGV[args + 7]] -- the algorithm of the first limit
    arg_at = args + 3
    local reply = decide_lean and decide_lean()
    if reply then return reply end
    key_at, arg_at = keys, args
  end
  return decide()
end

-- An error, such as a key of another type, ends its call and not the others: the
-- cursors go to the next call wherever it stopped.
local replies = {}
for i = 1, next_number() do
  local keys, args = next_number(), next_number()
  local keys_end, args_end = key_at + keys, arg_at + args
  local ok, reply = pcall(decide_lean_or_full)
  if not ok then reply = type(reply) == 'table' and reply.err or tostring(reply) end
  replies[i] = reply
  key_at, arg_at = keys_end, args_end
end
return replies
