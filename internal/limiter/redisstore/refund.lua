-- refund: returns the units that entries spent on a check over several nodes of a
-- Redis Cluster, after another node denied the check.
--
-- KEYS     the keys of the entries, as for decide
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
