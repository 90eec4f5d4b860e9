-- All limits, and how much of each is taken by running jobs.
WITH used AS (
    -- The limit of a gate with a key is named by all but its key.
    SELECT coalesce(substring(held.gate FROM '^[^#]*#'), held.gate) AS name,
        sum(coalesce(held.weight, 1)) AS weight
    FROM detent.detent_running AS running
    CROSS JOIN unnest(running.limits, running.weights) AS held (gate, weight)
    WHERE running.limits IS NOT NULL AND held.gate IS NOT NULL
    GROUP BY 1
)
SELECT known.name, known.concurrency, known.rate_count, known.rate_per, known.burst,
    known.algorithm, known.weight, known.declared, known.edited,
    coalesce((SELECT used.weight FROM used WHERE used.name = known.name), 0)::integer AS running
FROM detent.detent_limit AS known
ORDER BY known.name
