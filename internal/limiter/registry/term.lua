-- term: begin a term of leadership.
--
-- KEYS     as in prelude.lua
-- ARGV     1 holder: what tells this leadership from every other
--          2 the term it had before, 0 for none
--          3 the epoch the caller has looked at, '' for none
-- returns  {header after the call}; the term was taken if it shows the holder
-- clock    TIME: a term is never below the seconds of the clock, so that terms
--          go on rising when the registry has been wiped
-- cost     O(1)
-- refused  (another epoch than the caller has looked at) writes nothing

local s = state()
if s.epoch == ARGV[3] then
  s.term = math.max(s.term + 1, tonumber(ARGV[2]) + 1, math.floor(now() / 1000000))
  s.holder = ARGV[1]
  call('HSET', meta, 'term', text(s.term), 'holder', s.holder)
end
return { header(s) }
