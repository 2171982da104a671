-- term: begin a term of leadership, and report the leader as alive.
--
-- KEYS     as in prelude.lua
-- ARGV     1 holder: random name of this leadership
--          2 its previous term, 0 for none
--          3, 4 the term and the holder that the caller has observed
--          5 owner: the installation of the leader
--          6 name of the leader among the processes
--          7 its report
--          8 lifetime of the report, in microseconds
--          9... the beginnings of the names of leaders of this installation
-- returns  {header after the call}; the term was taken if it names the holder
-- clock    TIME: a new term is at least the seconds of the clock, so that terms
--          rise even after the registry was wiped
-- cost     O(processes)
-- rejects  a term other than the observed one, and a holder beside another one of its
--          installation that is alive; then it writes nothing but removes expired reports

local s = state()
if s.term ~= tonumber(ARGV[3]) or s.holder ~= ARGV[4] then return { header(s) } end
local at, lifetime = now(), tonumber(ARGV[8])
local alive = live(at, lifetime)
for i = 1, #alive, 2 do
  for leader = 9, #ARGV do
    if alive[i] ~= ARGV[6] and string.sub(alive[i], 1, #ARGV[leader]) == ARGV[leader] then
      return { header(s) }
    end
  end
end
s.term = math.max(s.term + 1, tonumber(ARGV[2]) + 1, math.floor(at / 1000000))
s.holder, s.owner = ARGV[1], ARGV[5]
call('HSET', leadership, 'term', text(s.term), 'holder', s.holder, 'owner', s.owner)
beat(ARGV[6], ARGV[7], at + lifetime)
return { header(s) }
