-- Make sure of limits that are written in code; what an operator has set stays.
-- $1 names, sorted  $2 concurrency  $3 count  $4 time in seconds  $5 burst  $6 algorithm
-- $7 weight  $8 whether jobs keep their order  $9 all of it as JSON: arrays of one length
WITH said AS (
    INSERT INTO detent.detent_limit AS known (
        name, concurrency, rate_count, rate_per, burst, algorithm, weight, ordered, declared
    )
    SELECT * FROM unnest(
        $1::text[], $2::integer[], $3::integer[], $4::float8[], $5::integer[], $6::text[],
        $7::integer[], $8::boolean[], $9::text[]
    )
    ON CONFLICT (name) DO UPDATE
    SET declared = excluded.declared,
        concurrency = CASE WHEN known.edited THEN known.concurrency ELSE excluded.concurrency END,
        rate_count = CASE WHEN known.edited THEN known.rate_count ELSE excluded.rate_count END,
        rate_per = CASE WHEN known.edited THEN known.rate_per ELSE excluded.rate_per END,
        burst = CASE WHEN known.edited THEN known.burst ELSE excluded.burst END,
        algorithm = CASE WHEN known.edited THEN known.algorithm ELSE excluded.algorithm END,
        weight = CASE WHEN known.edited THEN known.weight ELSE excluded.weight END,
        ordered = CASE WHEN known.edited THEN known.ordered ELSE excluded.ordered END
    WHERE known.declared IS DISTINCT FROM excluded.declared
    RETURNING name
)
INSERT INTO detent.detent_queue AS queue (name, limited)
SELECT substr(name, 7), true FROM said WHERE name LIKE 'queue:%'
ON CONFLICT (name) DO UPDATE SET limited = true
