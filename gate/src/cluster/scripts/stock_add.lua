-- KEYS: stock. ARGV: epoch, sequence, granted.
local stock = redis.call('HMGET', KEYS[1], 'epoch', 'sequence')
if stock[1] ~= ARGV[1] or stock[2] ~= ARGV[2] then return 0 end
redis.call('HINCRBY', KEYS[1], 'slots', ARGV[3])
return 1
