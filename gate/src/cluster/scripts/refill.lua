-- KEYS: books. ARGV: data center, epoch, sequence, slots, wanted, then run and taken of each gate.
local books = read(KEYS[1])
if not books.terms then return -1 end
local epoch, sequence = ARGV[2], tonumber(ARGV[3])
local stock = books.stocks[ARGV[1]]
if stock and stock.epoch == epoch and sequence <= stock.sequence then return -1 end
stock = { epoch = epoch, sequence = sequence, slots = tonumber(ARGV[4]) }
books.stocks[ARGV[1]] = stock
for i = 6, #ARGV, 2 do
  if books.gates[ARGV[i]] then
    books.known[ARGV[i]] = tonumber(ARGV[i + 1])
    redis.call('HSET', KEYS[1], 'k:' .. ARGV[i], ARGV[i + 1])
  end
end
local free = open(books) and sum(books).free or 0
local granted = math.min(math.max(tonumber(ARGV[5]) - stock.slots, 0), free)
stock.slots = stock.slots + granted
redis.call('HSET', KEYS[1], 's:' .. ARGV[1], cjson.encode(stock), 'free', whole(free - granted))
return granted
