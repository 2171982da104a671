-- heartbeat: report a process as alive, and return all live ones and the state of the
-- registry.
--
-- KEYS     as in prelude.lua
-- ARGV     1 name of the process; '' reports none
--          2 its report; '' removes it
--          3 lifetime of the report, in microseconds
-- returns  {header, {name, report, ...}} of all live processes after the call
-- clock    TIME
-- cost     O(processes); expired ones are removed

local at, lifetime = now(), tonumber(ARGV[3])
if ARGV[1] ~= '' then
  if ARGV[2] == '' then
    call('HDEL', processes, ARGV[1])
  else
    beat(ARGV[1], ARGV[2], at + lifetime)
  end
end
return { header(state()), live(at, lifetime) }
