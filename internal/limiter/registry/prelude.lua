-- prelude: the common start of all scripts of the registry.
--
-- KEYS     1 plans, 2 meta, 3 changes, 4 processes, 5 term; one hash tag, see doc.go
-- clock    TIME of the server, in microseconds; exact in a Lua number until 2255

local plans, meta, changes, processes, leadership = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local call = redis.call

local function now()
  local t = call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- Lua itself converts numbers to strings with only 14 digits.
local function text(n) return string.format('%.0f', n) end

-- The state of the registry, and the term. The registry is complete if it has
-- an epoch and the number of plans that was written: an evicted or half restored key is
-- incomplete.
local function state()
  local m = call('HMGET', meta, 'epoch', 'revision', 'digest', 'count', 'floor', 'published', 'layout')
  local t = call('HMGET', leadership, 'term', 'holder', 'owner')
  local epoch = m[1] or ''
  return {
    epoch = epoch,
    revision = tonumber(m[2]) or 0,
    digest = m[3] or '',
    complete = epoch ~= '' and call('HLEN', plans) == tonumber(m[4]),
    floor = tonumber(m[5]) or 0,
    published = tonumber(m[6]) or 0,
    layout = tonumber(m[7]) or 0,
    term = tonumber(t[1]) or 0,
    holder = t[2] or '',
    owner = t[3] or '',
  }
end

-- The state as a reply, at that time or now; calls.go reads it.
local function header(s, at)
  return { s.epoch, s.revision, s.digest, s.complete and 1 or 0, s.published,
    s.layout, s.term, s.holder, s.owner, at or now() }
end

-- The report in the value of a live process, else nil.
local function report_of(value, at, lifetime)
  local space = string.find(value, ' ', 1, true)
  local ends = space and tonumber(string.sub(value, 1, space - 1)) or 0
  -- An expiry too far ahead was written before the clock was set back.
  if ends > at and ends <= at + lifetime then return string.sub(value, space + 1) end
end

-- The names and reports of all live processes, as {name, report, ...}. It removes expired ones.
local function live(at, lifetime)
  local alive, all = {}, call('HGETALL', processes)
  for i = 1, #all, 2 do
    local report = report_of(all[i + 1], at, lifetime)
    if report then
      alive[#alive + 1] = all[i]
      alive[#alive + 1] = report
    else
      call('HDEL', processes, all[i])
    end
  end
  return alive
end

-- The same of the leader of the term alone.
local function leader(s, at, lifetime)
  local name = s.owner .. '/leader/' .. s.holder
  local report = report_of(call('HGET', processes, name) or '', at, lifetime)
  return report and { name, report } or {}
end

local function beat(name, report, ends) call('HSET', processes, name, text(ends) .. ' ' .. report) end
