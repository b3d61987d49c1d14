-- KEYS: stock. ARGV: run, taken so far, wanted.
local slots = tonumber(redis.call('HGET', KEYS[1], 'slots') or '0')
local got = math.min(tonumber(ARGV[3]), slots)
if redis.call('HEXISTS', KEYS[1], 'epoch') == 1 then
  redis.call('HSET', KEYS[1], 't:' .. ARGV[1], string.format('%.0f', tonumber(ARGV[2]) + got))
  if got > 0 then redis.call('HINCRBY', KEYS[1], 'slots', -got) end
end
return got
