-- The windows of FixedWindow limits that the summary of the holds records, see hold.lua.

-- In the key of a counter, the name of the limit and its window; also in other variants of the policy.
local WINDOW_NAME = ':([^:]*:fw:.*)'

-- The place of the window of the limit in the list, or the place for a new one.
local function place_of_window(entry, limit)
  limit.window_name = limit.window_name or string.match(limit.key, WINDOW_NAME)
  local windows, i = entry.windows, 1
  while windows[i] and windows[i] ~= limit.window_name do i = i + 2 end
  return i
end

-- Records the last millisecond of the latest window of a limit, unless all holds end after it, later ones too.
function holds.record_window(entry, limit, last)
  if not may_end_after_a_hold(entry, last) then return end
  local windows, i = entry.windows, place_of_window(entry, limit)
  windows[i], windows[i + 1] = limit.window_name, last
  entry.holds_changed = true
end

-- The last millisecond of the latest window; nil if it is not known.
function holds.recorded_window(entry, limit)
  return entry.windows[place_of_window(entry, limit) + 1]
end
