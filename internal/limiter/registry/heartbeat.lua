-- heartbeat: report a replica or leader as alive, and return all live ones and
-- the state of the registry.
--
-- KEYS     as in prelude.lua
-- ARGV     1 name
--          2 its report; '' removes it
--          3 lifetime of the report, in microseconds
-- returns  {header, {name, report, ...}} of all live names after the call
-- clock    TIME
-- cost     O(replicas); expired ones are removed

local at, lifetime = now(), tonumber(ARGV[3])
if ARGV[2] == '' then
  call('HDEL', replicas, ARGV[1])
else
  call('HSET', replicas, ARGV[1], text(at + lifetime) .. ' ' .. ARGV[2])
end

local alive = {}
local all = call('HGETALL', replicas)
for i = 1, #all, 2 do
  local ends, report = string.match(all[i + 1], '^(%d+) (.*)$')
  ends = tonumber(ends) or 0
  -- An expiry too far ahead was written before the clock was set back.
  if ends <= at or ends > at + lifetime then
    call('HDEL', replicas, all[i])
  else
    alive[#alive + 1] = all[i]
    alive[#alive + 1] = report
  end
end
return { header(state()), alive }
