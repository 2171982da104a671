-- read: the changes since the revision that a reader has, or all plans.
--
-- KEYS     as in prelude.lua
-- ARGV     1, 2 epoch and revision that the reader has, '' and 0 for none
--          3 digest of the plans that the reader has, '' for none
-- returns  {header, 0}                      nothing to load: the registry is not
--                                           complete, or not ahead of the reader
--          {header, 1, {ID, plan, ...}}     the changes; an empty plan was deleted. None if they are
--                                           not known, and the reader has equal plans
--          {header, 2, {ID, plan, ...}}     all plans, if the changes are not known: they are of another epoch,
--                                           or too long ago
-- clock    TIME, in the header
-- cost     O(what is returned)
-- writes   nothing

local s = state()
local epoch, revision = ARGV[1], tonumber(ARGV[2])
if not s.complete or (s.epoch == epoch and s.revision <= revision) then
  return { header(s), 0 }
end
if s.epoch ~= epoch or revision < s.floor then
  if s.digest == ARGV[3] then return { header(s), 1, {} } end
  return { header(s), 2, call('HGETALL', plans) }
end
local lacking = {}
for _, id in ipairs(call('ZRANGEBYSCORE', changes, '(' .. ARGV[2], '+inf')) do
  lacking[#lacking + 1] = id
  lacking[#lacking + 1] = call('HGET', plans, id) or ''
end
return { header(s), 1, lacking }
