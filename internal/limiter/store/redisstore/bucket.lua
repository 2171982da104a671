-- bucket: the state of TokenBucket without a debt, for token_bucket.lua and token_bucket_fast.lua; see
-- token_bucket.lua.

-- The value of a bucket without a debt.
local function bucket_value(deficit, time)
  return string.format(deficit <= 2 ^ 53 and '%x %x' or '%.17g/%x', deficit, time)
end

