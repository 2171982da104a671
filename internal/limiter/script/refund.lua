-- refund: takes back what entries spent, when part of a check that was spread
-- over several nodes of a Redis Cluster was denied after all.
--
-- KEYS     the entries', as decide
-- ARGV     number of entries; then per entry what decide takes and, per limit,
--          the receipt that decide gave
-- returns  an empty array
-- written  as if the entries had not been admitted; blocks stay

for _ = 1, next_number() do
  local entry = read_entry()
  for _, limit in ipairs(entry.limits) do
    limit.algorithm.refund(entry, limit, next_number())
  end
end
return {}
