-- arrival: the state of GCRA without a debt, for gcra.lua and gcra_fast.lua; see gcra.lua.

-- The value of an arrival time without a debt.
local function arrival_value(deficit, rate)
  local ahead = floor(deficit / rate)
  local part, value = deficit - ahead * rate, string.format('%016d', server_time() + ahead)
  if part > 0 then value = value .. string.format('%d', part) end
  return value
end

