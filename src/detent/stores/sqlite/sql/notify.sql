-- Wake-ups for the listeners of other processes.

-- step: wake
-- ?1 origin: the process whose own listeners were told already  ?2 wake-ups as JSON
INSERT INTO detent_wake (origin, payload) VALUES (?1, ?2)

-- step: prune
-- ?1 how many to keep
DELETE FROM detent_wake WHERE number <= (SELECT max(number) FROM detent_wake) - ?1

-- step: last
SELECT coalesce(max(number), 0) FROM detent_wake

-- step: news
-- ?1 the last number that was seen
SELECT number, origin, payload FROM detent_wake WHERE number > ?1 ORDER BY number
