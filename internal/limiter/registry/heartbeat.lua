-- heartbeat: say that a replica or leader is alive, and learn who else is and
-- what the registry is.
--
-- KEYS     as in prelude.lua
-- ARGV     1 name
--          2 what it reports, '' to leave (or not to appear)
--          3 how long that holds, in microseconds
-- returns  {header, {name, report, ...}} of all that are alive after the call
-- clock    TIME
-- cost     O(replicas); those whose time is over are removed

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
  -- One that ends too late was written before the clock was set back.
  if ends <= at or ends > at + lifetime then
    call('HDEL', replicas, all[i])
  else
    alive[#alive + 1] = all[i]
    alive[#alive + 1] = report
  end
end
return { header(state()), alive }
