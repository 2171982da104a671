-- block: the block of a key, and the mark that the key has holds.
--
-- KEYS     per entry, but not of commits by plans that keep holds and start no blocks: the name of the limit that
--          started the block, empty for a block by an operator. The TTL is the only record of its end
-- mark     BLOCK_MARK, while the key may have holds: every check reads this key, also by plans that keep no holds, which
--          then read the holds. If the key is also blocked, "<n>:<name>" follows: the TTL is n milliseconds longer than
--          the block

local function is_marked(entry)
  local value = values[entry.block_key]
  return value and string.byte(value) == BLOCK_MARK_BYTE
end

-- Milliseconds until the block of the key ends, or -1, and the name of the limit that started it.
local function live_block(entry)
  local value = values[entry.block_key]
  if not value or value == BLOCK_MARK then return -1 end
  if not is_marked(entry) then return time_left(entry.block_key), value end
  local longer, name = string.match(value, '^.(%d+):(.*)$')
  return longer and time_left(entry.block_key) - longer or -1, name
end

-- Whether the key is blocked. Only a mark that outlasts a block needs the time.
local function is_blocked(entry)
  local value = values[entry.block_key]
  return value and value ~= BLOCK_MARK and (not is_marked(entry) or live_block(entry) >= 0)
end

-- Blocks the key for `ttl` milliseconds. A mark stays.
local function write_block(entry, name, ttl)
  if not is_marked(entry) then return set_value(entry.block_key, name, ttl) end
  local marked = max(ttl, time_left(entry.block_key))
  set_value(entry.block_key, string.format('%s%d:%s', BLOCK_MARK, marked - ttl, name), marked)
end

-- Marks the key for at least `ttl` milliseconds. A block stays. The mark lasts twice as long, so that few holds write it.
local function mark_holds(entry, ttl)
  if is_marked(entry) and time_left(entry.block_key) >= ttl then return end
  local left, name = live_block(entry)
  set_value(entry.block_key, BLOCK_MARK, 2 * ttl)
  if left >= 0 then write_block(entry, name, left) end
end
