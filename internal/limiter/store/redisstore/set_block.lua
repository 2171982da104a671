-- set_block: sets or lifts the block of a key.
--
-- KEYS     the block, see block.lua
-- ARGV     the TTL of the new block in milliseconds; 0 lifts a block
-- returns  an empty array if the key was not blocked
-- writes   the block; a mark stays

load_values(1, 1)
local entry, ttl = { block_key = KEYS[1] }, tonumber(ARGV[1])
local was_blocked = live_block(entry) >= 0
if ttl > 0 then
  write_block(entry, '', ttl)
elseif is_marked(entry) then
  set_value(KEYS[1], BLOCK_MARK, max(time_left(KEYS[1]), 1)) -- it is 0 in the last millisecond
else
  was_blocked = call('DEL', KEYS[1]) > 0
end
return was_blocked and { 1 } or {}
