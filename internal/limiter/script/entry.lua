-- entry: reads the entries of a call, for decide and refund.
--
-- KEYS     per entry: its block key, then the keys of its algorithms
-- ARGV     per entry
--            cost, flags (1 attempts, 2 shadow, 4 peek: writes nothing, 8 blocks,
--            16 log, 32 dry run: spends nothing, but repairs state after an edit or a
--            clock change),
--            [keep, keep_units if 16], number of limits, then per limit
--              algorithm, quota, window (ms), [block (ms), name if 8], and the
--              arguments of its algorithm

local function read_limit(entry)
  local limit = {
    algorithm = algorithms[next_string()],
    quota = next_number(),
    window = next_number(),
  }
  if entry.blocks then limit.block, limit.name = next_number(), next_string() end
  limit.algorithm.read(entry, limit)
  if limit.admits == nil then limit.admits = limit.used + entry.cost <= limit.quota end
  return limit
end

local function read_entry()
  local entry = { block = next_key(), cost = next_number(), admitted = true, limits = {} }
  local flags = next_number()
  entry.attempts = flags % 2 >= 1
  entry.shadow = flags % 4 >= 2
  entry.peek = flags % 8 >= 4
  entry.blocks = flags % 16 >= 8
  entry.dry_run = flags >= 32
  if flags % 32 >= 16 then entry.keep, entry.keep_units = next_number(), next_number() end
  for i = 1, next_number() do
    local limit = read_limit(entry)
    entry.limits[i] = limit
    entry.admitted = entry.admitted and limit.admits
  end
  return entry
end
