-- heartbeat: report a process as alive, and return the state of the registry and the leader.
--
-- KEYS     as in prelude.lua
-- ARGV     1 name of the process; '' reports none
--          2 its report; '' removes it
--          3 lifetime of the report, in microseconds
-- returns  {header, {name, report} of the live leader of the term or {},
--          number of processes, perhaps with expired ones} after the call
-- clock    TIME
-- cost     O(1)

local at, lifetime = now(), tonumber(ARGV[3])
if ARGV[1] ~= '' then
  if ARGV[2] == '' then
    call('HDEL', processes, ARGV[1])
  else
    beat(ARGV[1], ARGV[2], at + lifetime)
  end
end
local s = state()
return { header(s, at), leader(s, at, lifetime), call('HLEN', processes) }
