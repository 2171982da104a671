-- refund: returns the units that entries spent on a check over several nodes of a
-- Redis Cluster, after another node denied the check.
--
-- KEYS     the keys of the entries, as for decide
-- ARGV     number of entries; then per entry the arguments of decide and, per limit,
--          the receipt that decide returned
-- returns  an empty array
-- writes   the state as if the entries had not been admitted; blocks stay

for _ = 1, next_number() do
  local entry = read_entry()
  for _, limit in ipairs(entry.limits) do
    limit.algorithm.refund(entry, limit, next_number())
  end
end
return {}
