-- reset: deletes all state of one key in one policy.
--
-- KEYS     the block and the states; then the records about them: of a policy that can
--          have requested limits, the list of their states (see listed.lua) and the
--          largest thresholds that logs serve (see sliding_log.lua)
-- ARGV     number of blocks and states
-- returns  an array that is empty if no block and no state existed; a mark is neither
-- writes   deletes also the states in the list, whose keys have the same hash tag

load_values(1, 1)
local states, deleted = tonumber(ARGV[1]), 0
local is_only_mark = is_marked({ block_key = KEYS[1] }) and live_block({ block_key = KEYS[1] }) < 0
for i, key in ipairs(KEYS) do
  local is_list = i > states and redis.call('TYPE', key).ok == 'set'
  if is_list then
    for _, state in ipairs(redis.call('SMEMBERS', key)) do
      deleted = deleted + redis.call('DEL', state)
    end
  end
  local existed = redis.call('DEL', key)
  if i <= states and not (i == 1 and is_only_mark) then deleted = deleted + existed end
end
return deleted > 0 and { deleted } or {}
