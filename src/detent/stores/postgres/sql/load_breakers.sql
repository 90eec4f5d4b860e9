-- Breakers by name, and the time: at least one row, which has no name when none of them exists.
-- $1 names
SELECT clock.now, breaker.*
FROM (SELECT clock_timestamp() AS now) AS clock
LEFT JOIN detent.detent_breaker AS breaker ON breaker.name = ANY ($1::text[])
