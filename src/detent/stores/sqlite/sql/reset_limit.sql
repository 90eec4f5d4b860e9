-- Take an operator's word back; what is written in no code goes.

-- step: reset
-- ?1 name  ?2 concurrency  ?3 count  ?4 time  ?5 burst  ?6 algorithm  ?7 weight
-- ?8 whether jobs keep their order
UPDATE detent_limit
SET concurrency = ?2, rate_count = ?3, rate_per = ?4, burst = ?5, algorithm = ?6,
    weight = ?7, ordered = ?8, edited = 0
WHERE name = ?1

-- step: gone
-- ?1 name
DELETE FROM detent_limit WHERE name = ?1

-- step: open
-- ?1 queue
UPDATE detent_queue SET limited = 0 WHERE name = ?1
