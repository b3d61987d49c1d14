-- KEYS: books, waiters. ARGV: run, gate, published (JSON), granted, settled, remembered, terms (JSON), waiters, presence, time to live.
local run, gate_name = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local books = read(KEYS[1])
local step = math.max(0, now - (books.seen or now))
books.clock = books.clock + math.min(step, 2000)
books.terms = cjson.decode(ARGV[7])

if ARGV[6] == '1' then
  local prefix = gate_name .. '#'
  for other in pairs(books.gates) do
    if other ~= run and string.sub(other, 1, #prefix) == prefix then
      books.gates[other] = nil
      redis.call('HDEL', KEYS[1], 'g:' .. other, 'n:' .. other, 'k:' .. other)
      redis.call('HDEL', KEYS[2], other)
    end
  end
end

if ARGV[5] == '1' or not books.gates[run] then books.granted[run] = tonumber(ARGV[4]) end
local own = cjson.decode(ARGV[3])
own.heard_at = books.clock
books.gates[run] = own

local gone, aged = {}, {}
for other, gate in pairs(books.gates) do
  local silent = books.clock - gate.heard_at
  if silent > books.terms.absent then
    if dark(books, gate.center) then
      if silent > books.terms.center_hold then gone[#gone + 1] = other end
    elseif silent > books.terms.gate_hold then gone[#gone + 1] = other
    elseif silent > 61000 and gate.rate > 0 then aged[#aged + 1] = other end
  end
end
for _, other in ipairs(aged) do
  books.gates[other].rate = 0
  redis.call('HSET', KEYS[1], 'g:' .. other, cjson.encode(books.gates[other]))
end
for _, other in ipairs(gone) do
  books.gates[other] = nil
  redis.call('HDEL', KEYS[1], 'g:' .. other, 'n:' .. other, 'k:' .. other)
end
for center in pairs(books.stocks) do
  local used = false
  for _, gate in pairs(books.gates) do used = used or gate.center == center end
  if not used then
    books.stocks[center] = nil
    redis.call('HDEL', KEYS[1], 's:' .. center)
  end
end

local sums = sum(books)
local limit = math.min(books.terms.total, books.terms.minute)
local gates = 0
for _, center in pairs(sums.centers) do gates = gates + center.gates end
local leased, lease_max = 0, 0
if sums.free >= math.floor(limit / 10) then
  lease_max = math.floor(math.floor(limit * books.terms.leased / 100) / math.max(gates, 1))
  if open(books) then leased = math.min(math.max(lease_max - own.lease, 0), sums.free) end
end
books.granted[run] = books.granted[run] + leased
local free = open(books) and sums.free - leased or 0

redis.call('HSET', KEYS[1], 'clock', whole(books.clock), 'seen', whole(now), 'free', whole(free), 'terms', ARGV[7],
  'g:' .. run, cjson.encode(own), 'n:' .. run, whole(books.granted[run]))
redis.call('HSET', KEYS[2], run, struct.pack('>I6', books.clock) .. ARGV[8])
redis.call('PEXPIRE', KEYS[1], ARGV[10])
redis.call('PEXPIRE', KEYS[2], ARGV[10])

local waiters = {}
local flat = redis.call('HGETALL', KEYS[2])
for i = 1, #flat, 2 do
  local age = books.clock - struct.unpack('>I6', flat[i + 1])
  if age > tonumber(ARGV[9]) then redis.call('HDEL', KEYS[2], flat[i])
  elseif flat[i] ~= run then waiters[#waiters + 1] = string.sub(flat[i + 1], 7) end
end

local stock = books.stocks[own.center]
local centers = {}
for _, name in ipairs(sums.names) do
  local center = sums.centers[name]
  centers[#centers + 1] = { name, center.gates, center.minute, center.admitted, center.new }
end
return { { free, sums.active, sums.minute, sums.out + leased, stock and stock.slots or 0, leased, lease_max }, centers, waiters }
