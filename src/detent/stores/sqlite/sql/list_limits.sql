-- All limits, and how much of each is taken by running jobs.
WITH used AS (
    -- The limit of a gate with a key is named by all but its key.
    SELECT CASE WHEN instr(held.value, '#') THEN substr(held.value, 1, instr(held.value, '#'))
            ELSE held.value END AS name,
        sum(coalesce(json_extract(running.weights, '$[' || held.key || ']'), 1)) AS weight
    FROM detent_running AS running
    CROSS JOIN json_each(running.limits) AS held
    WHERE running.limits IS NOT NULL AND held.value IS NOT NULL
    GROUP BY 1
)
SELECT known.name, known.concurrency, known.rate_count, known.rate_per, known.burst,
    known.algorithm, known.weight, known.declared, known.edited,
    coalesce((SELECT used.weight FROM used WHERE used.name = known.name), 0) AS running
FROM detent_limit AS known
ORDER BY known.name
