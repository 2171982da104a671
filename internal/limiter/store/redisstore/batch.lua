-- batch: decides a batch of calls of different callers, one after the other at one
-- instant, as if each had come alone.
--
-- KEYS     per call, or once for a run with RUN_SAME_KEYS, the keys of its entries. All but commits
--          by plans that keep holds and start no block read the block key: a block may be older than the last edit of the policy, or set
--          by an operator
-- ARGV     number of runs; per run of successive calls with the same policies
--            number of calls, of the keys and of the call arguments of one call;
--            flags (see protocol.go); number of entries; the entries;
--            per call, or once for a run with RUN_SAME_ARGS: [the caller's draw, 0..2^32-1]; per entry its
--            call arguments: cost, [ID, by its action]
-- returns  a flat array, per call: the text of the error that ended it; or an array of -1 and
--          the indexes of the entries that prevented a decision, being unknown or without
--          room for their state; or an array of a report per entry; or, of a short report,
--          the numbers themselves
-- report   verdict and flags (see protocol.go),
--          [block left (us), name of the limit that blocked, if the key is blocked],
--          [outcome of the hold, units of the hold that was found, units and number of all, number
--            of the holds that the call settled, units of debt that were cut, if holds],
--          then per limit: [why it admits or not, if the report is not short], used, [retry after
--            (us, -1 never), used after that time, if it is not short], reset after (us), [share of
--            checks that is shed, in millionths, if Suppressed], [receipt, if wanted]
-- writes   by the kind of entry, after it has settled the holds that have ended:
--            a peek: nothing
--            blocked: repairs of a TTL or an arrival time that an edit or a clock change made wrong
--            not blocked, counts admissions, and an enforcing entry denies: such repairs, units that
--              Suppressed observes and, if the entry itself is denied, its block
--            others: the cost, or a hold of it; for a commit that fills a limit, perhaps a block

local key_at, arg_at = 0, 1
local decide_run -- of the general path, which most scripts do not need
for _ = 1, ARGV[1] do
  local is_fast = ARGV[arg_at + AT_RUN_FLAGS] % (2 * RUN_FAST) >= RUN_FAST -- see fast_prepare
  local next_key, next_arg, undecided
  if is_fast then next_key, next_arg, undecided = fast_run(key_at, arg_at) end
  if undecided or not is_fast then
    decide_run = decide_run or (function()
      --[[general path]]
    end)()
    next_key, next_arg = decide_run(key_at, arg_at, undecided)
  end
  key_at, arg_at = next_key, next_arg
end
return replies
