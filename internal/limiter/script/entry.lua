-- entry: reads the entries of a run of calls, for decide and refund. The calls of a run
-- have the same policies; limits are prepared once and used for each of them in turn.
--
-- KEYS     per entry: its block key, [the list of its requested states, if 128], then
--          the keys of its algorithms
-- ARGV     per entry what the calls have in common:
--            flags (1 attempts, 2 shadow, 4 peek: writes nothing, 8 blocks, 16 log,
--            32 dry run: spends nothing, but repairs state after an edit or a clock
--            change, 64 only if known, 128 listed, 256 the log has a key for the
--            largest number it serves, 512 this number may be larger),
--            [keep, keep_units if 16], [index of the listed limit if 128],
--            number of limits, then per limit
--              algorithm, quota, window (ms), [block (ms), name if 8], and the
--              arguments of its algorithm
--          per entry of one call: cost

local function prepare_limit(entry)
  local limit = {
    algorithm = algorithms[next_string()],
    quota = next_number(),
    window = next_number(),
  }
  if entry.blocks then limit.block, limit.name = next_number(), next_string() end
  if limit.algorithm.prepare then limit.algorithm.prepare(limit) end
  return limit
end

local function prepare_entry()
  local flags = next_number()
  local entry = {
    attempts = flags % 2 >= 1,
    shadow = flags % 4 >= 2,
    peek = flags % 8 >= 4,
    blocks = flags % 16 >= 8,
    dry_run = flags % 64 >= 32,
    only_known = flags % 128 >= 64,
    has_list = flags % 256 >= 128,
    has_largest = flags % 512 >= 256,
    enlarges = flags >= 512,
    limits = {},
  }
  if flags % 32 >= 16 then entry.keep, entry.keep_units = next_number(), next_number() end
  if entry.has_list then entry.listed = next_number() end
  for i = 1, next_number() do entry.limits[i] = prepare_limit(entry) end
  return entry
end

-- Reads what the calls of a run have in common.
local function prepare_entries()
  local entries = {}
  for i = 1, next_number() do entries[i] = prepare_entry() end
  return entries
end

-- Reads the entry of the next call: its keys, its cost, and the state of its limits.
local function read_entry(entry)
  entry.block, entry.cost = next_key(), next_own_number()
  entry.list = entry.has_list and next_key()
  entry.admitted, entry.log = true, nil
  local known = values[entry.block]
  local limits = entry.limits
  for i = 1, #limits do
    local limit = limits[i]
    limit.admits = nil
    limit.algorithm.read(entry, limit)
    if limit.admits == nil then limit.admits = limit.used + entry.cost <= limit.quota end
    entry.admitted = entry.admitted and limit.admits
    local log = limit.log
    if log then known = known or not log.empty else known = known or values[limit.key] end
  end
  entry.known = known
end
