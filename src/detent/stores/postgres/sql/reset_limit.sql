-- Take an operator's word back; what is written in no code goes.
-- $1 name  $2 what code says, as it was read  $3 concurrency  $4 count  $5 time in seconds
-- $6 burst  $7 algorithm  $8 weight  $9 whether jobs keep their order: what that means
WITH kept AS (
    UPDATE detent.detent_limit
    SET concurrency = $3, rate_count = $4, rate_per = $5, burst = $6, algorithm = $7,
        weight = $8, ordered = $9, edited = false
    WHERE name = $1 AND declared = $2
    RETURNING name
), gone AS (
    DELETE FROM detent.detent_limit WHERE name = $1 AND declared IS NULL AND $2 IS NULL
    RETURNING name
), opened AS (
    UPDATE detent.detent_queue AS queue SET limited = false
    FROM gone
    WHERE gone.name LIKE 'queue:%' AND queue.name = substr(gone.name, 7)
)
SELECT name FROM kept UNION ALL SELECT name FROM gone
