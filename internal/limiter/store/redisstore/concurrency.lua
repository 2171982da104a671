-- Concurrency: at most `quota` units are held at once. Holds are the only state: a check is
-- judged by them and spends nothing.
--
-- KEYS     none of its own, see hold.lua
-- ARGV     none
-- clock    none of its own
-- cost     none of its own
-- denied   writes nothing

local function nothing()
  return 0
end

algorithms.co = {
  read = function(_, limit) limit.used = 0 end,
  settle = nothing,
  time_to_fit = nothing,
  used_after = nothing,
  reset_after = nothing,
  refund = nothing,
  after_last = function(entry) return holds.last_end(entry) end,
}
