-- prelude: the common start of all scripts of the registry.
--
-- KEYS     1 plans, 2 meta, 3 changes, 4 replicas; one hash tag, see doc.go
-- clock    TIME of the server, in microseconds; exact in a Lua number until 2255

local plans, meta, changes, replicas = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local call = redis.call

local function now()
  local t = call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- Lua itself converts numbers to strings with only 14 digits.
local function text(n) return string.format('%.0f', n) end

-- The state of the registry. It is complete if it has an epoch and the number of
-- plans that was written: an evicted or half restored key is incomplete.
local function state()
  local m = call('HMGET', meta,
    'epoch', 'revision', 'digest', 'count', 'floor', 'published', 'term', 'holder')
  local epoch = m[1] or ''
  return {
    epoch = epoch,
    revision = tonumber(m[2]) or 0,
    digest = m[3] or '',
    complete = epoch ~= '' and call('HLEN', plans) == tonumber(m[4]),
    floor = tonumber(m[5]) or 0,
    published = tonumber(m[6]) or 0,
    term = tonumber(m[7]) or 0,
    holder = m[8] or '',
  }
end

-- The state as a reply; calls.go reads it.
local function header(s)
  return { s.epoch, s.revision, s.digest, s.complete and 1 or 0, s.published, s.term, s.holder, now() }
end
