-- entry: reads the entries of a run of calls, for decide and refund. The calls of a run
-- have the same policies; limits are prepared once and used for each of them in turn.
--
-- KEYS     per entry: [its block key, unless it commits, keeps holds and starts no block], [the list of its requested states, if ENTRY_LISTED],
--          [the key of its holds, if ENTRY_HOLDS], the keys of its algorithms, each followed by the
--          key with the number of blocks, if there are several lengths, [the key of a charge, if ENTRY_REMEMBERS]
-- ARGV     per entry what the calls have in common:
--            flags and the action (see protocol.go),
--            [how long to hold (ms), if the action is reserve, renew or slice],
--            [the most units that all slices hold, if the action is slice],
--            [keep (ms), keep_units if ENTRY_LOG], [index of the listed limit if ENTRY_LISTED],
--            [keep_after_end (ms), the most open holds if ENTRY_HOLDS],
--            number of limits, then per limit
--              algorithm, quota, window (ms), [block (ms), name if ENTRY_BLOCKS; or the number of
--              lengths below 0, name, the lengths (ms), how long after a block its
--              number is remembered (ms)], and the arguments of its algorithm
--          per entry of one call: cost, [ID, by its action]

-- Reads the lengths of the first, second, ... block of the limit, and the time after the last block for which the
-- limit remembers their number.
local function prepare_escalation(limit)
  limit.lengths = {}
  for i = 1, -limit.block_millis do limit.lengths[i] = next_number() end
  limit.remembers = next_number()
end

local function prepare_limit(entry)
  local limit = {
    algorithm = algorithms[next_string()],
    quota = next_number(),
    window = next_number(),
  }
  if entry.has_blocks then
    limit.block_millis, limit.name = next_number(), next_string()
    if limit.block_millis < 0 then prepare_escalation(limit) end
  end
  if limit.algorithm.prepare then limit.algorithm.prepare(limit) end
  return limit
end

local function prepare_entry()
  local flags = next_number()
  local entry = {
    attempts = band(flags, ENTRY_ATTEMPTS) ~= 0,
    shadow = band(flags, ENTRY_SHADOW) ~= 0,
    peek = band(flags, ENTRY_PEEK) ~= 0,
    has_blocks = band(flags, ENTRY_BLOCKS) ~= 0,
    on_commit = band(flags, ENTRY_ON_COMMIT) ~= 0,
    precheck = band(flags, ENTRY_PRECHECK) ~= 0,
    only_known = band(flags, ENTRY_ONLY_KNOWN) ~= 0,
    has_list = band(flags, ENTRY_LISTED) ~= 0,
    has_largest = band(flags, ENTRY_LARGEST) ~= 0,
    enlarges = band(flags, ENTRY_ENLARGES) ~= 0,
    keeps_holds = band(flags, ENTRY_HOLDS) ~= 0,
    settles = band(flags, ENTRY_REQUESTED) == 0,
    remembers = band(flags, ENTRY_REMEMBERS) ~= 0,
    action = bit.rshift(flags, ENTRY_ACTION_BITS),
    limits = {},
  }
  entry.always_admits = entry.action > ACTION_RESERVE -- commits, renews or charges
  entry.has_block = entry.action ~= ACTION_COMMIT or entry.on_commit or not entry.keeps_holds
  local action = entry.action
  if action == ACTION_RESERVE or action == ACTION_RENEW or action == ACTION_SLICE then entry.ttl = next_number() end
  if action == ACTION_SLICE then entry.most_sliced = next_number() end
  if band(flags, ENTRY_LOG) ~= 0 then entry.keep, entry.keep_units = next_number(), next_number() end
  if entry.has_list then entry.listed = next_number() end
  entry.keep_after_end, entry.max_open = 0, 0
  if entry.keeps_holds then entry.keep_after_end, entry.max_open = next_number() * 1000, next_number() end
  entry.reserves = action == ACTION_RESERVE and entry.keeps_holds and entry.max_open > 0
  for i = 1, next_number() do
    entry.limits[i] = prepare_limit(entry)
    entry.observes = entry.observes or entry.limits[i].algorithm.observes
  end
  return entry
end

-- Reads what the calls of a run have in common.
local function prepare_entries()
  local entries = {}
  for i = 1, next_number() do entries[i] = prepare_entry() end
  return entries
end

-- The key of the holds that another plan may have taken; nil without a mark. A plan that observes checks counts in
-- states of its own, and reads no holds.
local function holds_of_others(entry)
  if not is_marked(entry) or entry.observes then return nil end
  local key = string.sub(entry.block_key, 1, -#'block' - 1) .. 'held'
  if values[key] == nil then values[key] = call('MGET', key)[1] end
  return key
end

-- Reads the entry of the next call: its keys, its cost, and the state of its limits.
local function read_entry(entry)
  entry.block_key, entry.cost = entry.has_block and next_key(), next_call_number()
  entry.list_key = entry.has_list and next_key()
  entry.log, entry.held_units, entry.open_holds = nil, 0, 0
  local known = is_blocked(entry)
  if entry.keeps_holds then entry.holds_key = next_key() else entry.holds_key = holds_of_others(entry) end
  if entry.action ~= ACTION_CHECK or entry.holds_key and values[entry.holds_key] then
    holds = holds or new_holds()
    holds.read(entry)
    known = known or entry.open_holds > 0
  end
  local limits = entry.limits
  for i = 1, #limits do
    local limit = limits[i]
    limit.admits = nil
    limit.algorithm.read(entry, limit)
    if limit.lengths then limit.block_count_key = next_key() end
    local log = limit.log
    if log then known = known or not log.empty else known = known or values[limit.key] end
  end
  entry.known = known
  if entry.remembers then entry.charge_key = next_key() end
end

-- Sets which limits admit the cost of the entry.
local function admit(entry)
  entry.admitted = true
  local limits, units = entry.limits, entry.held_units + entry.cost
  for i = 1, #limits do
    local limit = limits[i]
    if limit.admits == nil then limit.admits = limit.used + units <= limit.quota end
    entry.admitted = entry.admitted and limit.admits
  end
end
