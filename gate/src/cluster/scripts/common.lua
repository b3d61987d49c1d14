-- The books of a room, as cluster/ledger.rs keeps them. One hash:
--   clock, seen, free    the ledger's own time, when it last moved, and what it would grant
--   terms                the limits and times last published, as JSON
--   g:RUN, n:RUN         what a run of a gate published, as JSON, and what it was granted
--   k:RUN                what its data center's stock said it had taken
--   s:NAME               the stock of a data center, as JSON
local function whole(n) return string.format('%.0f', n) end

local function read(key)
  local books = { clock = 0, seen = false, gates = {}, stocks = {}, granted = {}, known = {} }
  local flat = redis.call('HGETALL', key)
  for i = 1, #flat, 2 do
    local name, value = flat[i], flat[i + 1]
    local kind, rest = string.sub(name, 1, 2), string.sub(name, 3)
    if kind == 'g:' then books.gates[rest] = cjson.decode(value)
    elseif kind == 'n:' then books.granted[rest] = tonumber(value)
    elseif kind == 'k:' then books.known[rest] = tonumber(value)
    elseif kind == 's:' then books.stocks[rest] = cjson.decode(value)
    elseif name == 'terms' then books.terms = cjson.decode(value)
    else books[name] = tonumber(value) end
  end
  return books
end

local function absent(books, gate) return books.clock - gate.heard_at > books.terms.absent end

local function dark(books, center)
  for _, gate in pairs(books.gates) do
    if gate.center == center and not absent(books, gate) then return false end
  end
  return true
end

local function sum(books)
  local active, out, minute = 0, 0, 0
  local centers, names = {}, {}
  for run, gate in pairs(books.gates) do
    active = active + gate.active
    minute = minute + gate.rate
    out = out + (books.granted[run] or 0) + math.max(gate.taken, books.known[run] or 0) - gate.used - gate.returned
    local center = centers[gate.center]
    if not center then
      center = { gates = 0, minute = 0, admitted = 0, new = 0 }
      centers[gate.center] = center
      names[#names + 1] = gate.center
    end
    if not absent(books, gate) then
      center.gates = center.gates + 1
      if gate.minute > center.minute then
        center.minute, center.admitted, center.new = gate.minute, 0, 0
      end
      if gate.minute == center.minute then
        center.admitted = center.admitted + gate.admitted
        center.new = center.new + gate.new
      end
    end
  end
  for _, stock in pairs(books.stocks) do out = out + stock.slots end
  active, out = math.max(active, 0), math.max(out, 0)
  local free = math.min(books.terms.total - active - out, books.terms.minute - minute - out)
  table.sort(names)
  return { active = active, out = out, minute = minute, free = math.max(free, 0), centers = centers, names = names }
end

local function open(books) return books.clock >= books.terms.settle end
