-- formats: record the formats of the registry, and delete those that are no longer needed.
--
-- KEYS     as in prelude.lua, then the keys to delete
-- ARGV     1, 2 term and holder of the leader
--          3 the formats that have keys after the call, as JSON
-- returns  {1 if written else 0, header after the call}
-- cost     O(plans that are deleted), in the background of the server
-- rejects  a term other than the current one; then it writes nothing

local s = state()
if s.term ~= tonumber(ARGV[1]) or s.holder ~= ARGV[2] then return { 0, header(s) } end
call('HSET', leadership, 'formats', ARGV[3])
for i = 6, #KEYS do call('UNLINK', KEYS[i]) end
return { 1, header(state()) }
