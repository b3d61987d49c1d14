-- KEYS: stock. ARGV: run, wanted, how long this gate keeps the stock, time to live. Nothing where another gate keeps it.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local keeper = redis.call('HMGET', KEYS[1], 'keeper', 'keeps_until', 'epoch', 'slots')
if keeper[1] and keeper[1] ~= ARGV[1] and tonumber(keeper[2]) > now then return false end
local epoch = keeper[3] or (time[1] .. '-' .. time[2])
local slots = math.min(tonumber(keeper[4] or '0'), tonumber(ARGV[2]))
redis.call('HSET', KEYS[1], 'keeper', ARGV[1], 'keeps_until', string.format('%.0f', now + ARGV[3]), 'epoch', epoch, 'slots', slots)
local sequence = redis.call('HINCRBY', KEYS[1], 'sequence', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
local taken = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  if string.sub(flat[i], 1, 2) == 't:' then
    taken[#taken + 1] = string.sub(flat[i], 3)
    taken[#taken + 1] = flat[i + 1]
  end
end
return { epoch, sequence, slots, taken }
