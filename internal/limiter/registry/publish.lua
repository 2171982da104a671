-- publish: write a batch of changes as one revision, or begin a new epoch with
-- all plans, and notify the replicas.
--
-- KEYS     as in prelude.lua
-- ARGV     1, 2 term and holder of the leader
--          3, 4, 5 epoch, revision and digest that the write builds upon
--          6, 7, 8 epoch, revision and digest after the call; another epoch
--            than ARGV[3] replaces all plans
--          9 number of plans after the call
--          10 number of changes to remember
--          11 number of the layout of the keys
--          12... pairs of ID and plan; an empty plan deletes
-- returns  {1 if written else 0, header after the call}
-- clock    TIME, stored as the time of publication
-- cost     O(changes), in a new epoch O(plans)
-- rejects  the write if the term is another one, or if the registry has a state other than
--          the one that the write builds upon, or is incomplete within the epoch; then it
--          writes nothing and notifies no replica

local s = state()
local term = tonumber(ARGV[1])
local replace = ARGV[3] ~= ARGV[6]
if s.term ~= term or s.holder ~= ARGV[2]
  or s.epoch ~= ARGV[3] or s.revision ~= tonumber(ARGV[4]) or s.digest ~= ARGV[5]
  or not (s.complete or replace) then
  return { 0, header(s) }
end

if replace then call('DEL', plans, changes) end
for i = 12, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    call('HDEL', plans, ARGV[i])
  else
    call('HSET', plans, ARGV[i], ARGV[i + 1])
  end
  -- A new epoch is loaded as a whole, whatever changed.
  if not replace then call('ZADD', changes, ARGV[7], ARGV[i]) end
end

-- Up to its floor the list of changes is incomplete.
local floor = replace and ARGV[7] or text(s.floor)
local excess = call('ZCARD', changes) - tonumber(ARGV[10])
if excess > 0 then
  floor = call('ZRANGE', changes, excess - 1, excess - 1, 'WITHSCORES')[2]
  call('ZREMRANGEBYRANK', changes, 0, excess - 1)
end

call('HSET', meta, 'epoch', ARGV[6], 'revision', ARGV[7], 'digest', ARGV[8], 'count', ARGV[9],
  'floor', floor, 'published', text(now()), 'layout', ARGV[11])
call('PUBLISH', plans, ARGV[7] .. ' ' .. ARGV[6])
return { 1, header(state()) }
