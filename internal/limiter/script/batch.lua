-- batch: decides a batch of calls of different callers, one after the other at one
-- instant, as if each had come alone.
--
-- KEYS     per call the keys of its entries. The block key is always read: a block
--          may be older than the last edit of the policy, or set by an operator
-- ARGV     number of runs; per run of successive calls with the same policies
--            number of calls, of the keys and of the own arguments of one call;
--            flags (1 the calls are denied already, outside the call; 2 return
--            receipts; 4 the calls have draws; 8 all calls have the same keys, which
--            are in KEYS once; 16 the calls repeat others, which took holds; 32 lean.lua may
--            decide them); number of entries; the entries;
--            per call [the caller's draw, 0..2^32-1]; per entry its own arguments
-- returns  per call the text of the error that ended it; or -1 and the indexes of the
--          entries that prevented a decision, being unknown or without room for their
--          state; or a flat array, per entry
--            verdict (0 admitted, 1 denied, 2 already blocked, 3 denied and now blocked;
--            8 more if the call began the first state of the key; 16 more if holds
--            follow; 32 more if the limits, which all admit, have short reports),
--            [block left (us), name of the limit that blocked, if verdict >= 2],
--            [what became of a hold (0 nothing, 1 taken, 2 found, 3 missing, 4 too many),
--            units of the hold that was found, units and number of all, number that the
--            call settled, units of debt that were cut, if holds],
--            then per limit: admits (0 no, 1 yes, 2 shed at random, 3 as soon as holds
--            end), used, retry after (us, -1 never), used after that time, reset after
--            (us), [share of checks that is shed, in millionths, if Suppressed],
--            [receipt, if wanted]; or, in a short report, used and reset after (us)
-- writes   nothing for a peek, but it settles the holds that have ended. For a blocked
--          entry at most a repair: a TTL or an arrival time that an edit or a clock
--          change made wrong. When an enforcing entry denies, an entry that counts
--          admissions writes only such repairs, what its algorithm observes and, if it
--          is denied itself, its block

local replies, replied, key_at, arg_at = {}, 0, 0, 1
local decide_run
for _ = 1, tonumber(ARGV[1]) do
  local calls, flags = tonumber(ARGV[arg_at + 1]), tonumber(ARGV[arg_at + 4])
  local next_key, next_arg
  if flags % 64 >= 32 then next_key, next_arg = lean_run(replies, replied, key_at, arg_at) end
  if not next_key then
    decide_run = decide_run or general()
    next_key, next_arg = decide_run(replies, replied, key_at, arg_at)
  end
  key_at, arg_at, replied = next_key, next_arg, replied + calls
end
return replies
