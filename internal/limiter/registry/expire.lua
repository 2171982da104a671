-- expire: remove the reports of processes that have expired.
--
-- KEYS     as in prelude.lua
-- ARGV     1 lifetime of reports, in microseconds
-- returns  {}
-- clock    TIME
-- cost     O(processes)

live(now(), tonumber(ARGV[1]))
return {}
