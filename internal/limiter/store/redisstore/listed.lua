-- listed: a list of the states of requested limits that refill. Each window and
-- threshold has a state of its own, so that a reset needs the list to find them.
--
-- KEYS     of the entry: a set with the keys of these states
-- kept     as long as the longest of the states
-- cost     per spend SADD and PTTL

-- The most states that the list names.
local MOST_LISTED = 16

-- Whether the state of the listed limit is a further one, for which there is no room.
local function list_is_full(entry)
  local key = entry.limits[entry.listed].key
  if values[key] or call('SCARD', entry.list_key) < MOST_LISTED then return false end
  if call('SISMEMBER', entry.list_key, key) == 1 then return false end
  local live = 0
  for _, name in ipairs(call('SMEMBERS', entry.list_key)) do live = live + call('EXISTS', name) end
  return live >= MOST_LISTED
end

-- Lists the state of the listed limit after it spent; drops expired states from the list.
local function list_state(entry)
  local key = entry.limits[entry.listed].key
  if not values[key] then return end
  if call('SADD', entry.list_key, key) == 1 then
    for _, name in ipairs(call('SMEMBERS', entry.list_key)) do
      if name ~= key and call('EXISTS', name) == 0 then call('SREM', entry.list_key, name) end
    end
  end
  local ttl = time_left(key)
  if call('PTTL', entry.list_key) < ttl then call('PEXPIRE', entry.list_key, ttl) end
end
