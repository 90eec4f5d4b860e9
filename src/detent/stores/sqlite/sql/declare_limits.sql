-- Make sure of limits that are written in code; what an operator has set stays.

-- step: known
-- Which of some limits are declared as they are now?
-- ?1 arrays of name and JSON, as JSON
SELECT count(*)
FROM json_each(?1) AS said
CROSS JOIN detent_limit AS known
    ON known.name = json_extract(said.value, '$[0]')
    AND known.declared = json_extract(said.value, '$[1]')

-- step: declare
-- ?1 name  ?2 concurrency  ?3 count  ?4 time  ?5 burst  ?6 algorithm  ?7 weight
-- ?8 whether jobs keep their order  ?9 all of it as JSON
INSERT INTO detent_limit AS known (
    name, concurrency, rate_count, rate_per, burst, algorithm, weight, ordered, declared
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (name) DO UPDATE
SET declared = excluded.declared,
    concurrency = CASE WHEN known.edited THEN known.concurrency ELSE excluded.concurrency END,
    rate_count = CASE WHEN known.edited THEN known.rate_count ELSE excluded.rate_count END,
    rate_per = CASE WHEN known.edited THEN known.rate_per ELSE excluded.rate_per END,
    burst = CASE WHEN known.edited THEN known.burst ELSE excluded.burst END,
    algorithm = CASE WHEN known.edited THEN known.algorithm ELSE excluded.algorithm END,
    weight = CASE WHEN known.edited THEN known.weight ELSE excluded.weight END,
    ordered = CASE WHEN known.edited THEN known.ordered ELSE excluded.ordered END
WHERE known.declared IS NOT excluded.declared

-- step: close
-- ?1 queue
INSERT INTO detent_queue (name, limited) VALUES (?1, 1)
ON CONFLICT (name) DO UPDATE SET limited = 1
