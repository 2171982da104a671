-- hold: the holds of a key, which are the estimates of its open reservations, or its slices. While replicas have
-- different plans, a plan that keeps no holds judges and settles the holds of another plan, which mark the key; see block.lua.
--
-- KEYS     per entry that keeps holds, after its block and its list; of another entry with a marked key beside its block
--            held: a summary in MessagePack, one value after the other: units of the holds,
--              number of the holds, a time before which none ends, the time until which they
--              are kept, whether they are in a set, number of windows; per window the name of
--              a FixedWindow limit and the last millisecond of its latest window, if that is
--              after the end of a hold, or still open; and per hold, if they are not in a set, its ID, units
--              and end. Times are microseconds since 1970
--          per entry with the ID of a charge, after all others, the key that remembers it
-- set      of more than 16 holds: a sorted set at the key <held>:set, with two members
--          for each hold, e:<id> with its end and u:<id> with its units below 0. It is in use
--          until the last hold is removed
-- ARGV     per entry that keeps holds, before its limits: keep_after_end (how long a limit needs spent
--          units, ms), the most open holds
--          per entry of one call, after its cost: [ID], by its action
-- clock    TIME, while holds are open
-- cost     SET to take a hold, and at times SET to mark the key; SET or DEL to commit one; in a set also ZADD and PEXPIRE, or
--          ZMSCORE and ZREM
-- kept     until the units of the last hold could not count any more, had they been spent at
--          its end
--
-- The next call for the key, also a peek, first settles the holds that have ended: it spends the estimate of
-- each as of its end.
--   - A call settles the first HOLD_MOST_SETTLED at most. The others stay holds.
--   - If a state has changed since the end of a hold, the hold counts as of this change, since the time of a
--     key never goes back.
--   - The ID is remembered like the ID of a charge, for a commit that comes too late.

-- Returns the functions of the files hold_*.lua, in their order here. Most scripts do not need them, and making them takes
-- a tenth of the time of a check.
--
--   hold_summary.lua  reads and writes the summary
--   hold_list.lua     one hold: in the summary or in the set
--   hold_window.lua   the windows that the summary records
--   hold_settle.lua   spends the holds that have ended
--   hold_reserve.lua  judges and takes a hold
--   hold_change.lua   commits, renews, charges and takes slices
new_holds = function()
  local holds = {}
  --[[holds]]
  return holds
end
