-- Let an operator's word hold.
-- $1 name  $2 concurrency  $3 count  $4 time in seconds  $5 burst  $6 algorithm  $7 weight
-- $8 whether jobs keep their order
WITH said AS (
    INSERT INTO detent.detent_limit (
        name, concurrency, rate_count, rate_per, burst, algorithm, weight, ordered, edited
    )
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, true)
    ON CONFLICT (name) DO UPDATE
    SET concurrency = excluded.concurrency,
        rate_count = excluded.rate_count,
        rate_per = excluded.rate_per,
        burst = excluded.burst,
        algorithm = excluded.algorithm,
        weight = excluded.weight,
        ordered = excluded.ordered,
        edited = true
    RETURNING name
)
INSERT INTO detent.detent_queue AS queue (name, limited)
SELECT substr(name, 7), true FROM said WHERE name LIKE 'queue:%'
ON CONFLICT (name) DO UPDATE SET limited = true
