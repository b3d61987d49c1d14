-- KEYS: books. ARGV: run, wanted.
if redis.call('HEXISTS', KEYS[1], 'g:' .. ARGV[1]) == 0 then return 0 end
local free = tonumber(redis.call('HGET', KEYS[1], 'free') or '0')
local granted = math.min(tonumber(ARGV[2]), free)
if granted > 0 then
  redis.call('HINCRBY', KEYS[1], 'n:' .. ARGV[1], granted)
  redis.call('HINCRBY', KEYS[1], 'free', -granted)
end
return granted
