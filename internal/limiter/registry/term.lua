-- term: begin a term of leadership.
--
-- KEYS     as in prelude.lua
-- ARGV     1 holder: random name of this leadership
--          2 its previous term, 0 for none
--          3 the epoch that the caller has observed, '' for none
-- returns  {header after the call}; the term was taken if it names the holder
-- clock    TIME: a new term is at least the seconds of the clock, so that terms
--          rise even after the registry was wiped
-- cost     O(1)
-- rejects  an epoch other than the observed one; then it writes nothing

local s = state()
if s.epoch == ARGV[3] then
  s.term = math.max(s.term + 1, tonumber(ARGV[2]) + 1, math.floor(now() / 1000000))
  s.holder = ARGV[1]
  call('HSET', meta, 'term', text(s.term), 'holder', s.holder)
end
return { header(s) }
