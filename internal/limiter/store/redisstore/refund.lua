-- refund: gives back the units that a group of entries spent on a check of several groups, after another
-- group denied the check; see spread.go.
--
-- KEYS     the keys of the entries, as entry.lua describes them
-- ARGV     number of entries; the entries; then per entry its cost and, per
--          limit, the receipt that decide returned
-- returns  an empty array
-- writes   the state as if the entries had not been admitted; blocks stay

local entries = prepare_entries()
call_arg_at = arg_at
load_values(1, #KEYS)
for _, entry in ipairs(entries) do
  read_entry(entry)
  for _, limit in ipairs(entry.limits) do
    limit.algorithm.refund(entry, limit, next_call_number())
  end
end
return {}
