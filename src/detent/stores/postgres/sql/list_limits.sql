-- All limits, and how much of each is taken by running jobs. Their gates have names in their lanes.
WITH held AS (
    SELECT substring(lane FROM '~(resource:[^~*+]*)') AS name, coalesce(weight, 1) AS weight
    FROM detent.detent_running
    WHERE resource_gate IS NOT NULL
    UNION ALL
    -- The limit of a gate with a key is named by all but its key.
    SELECT substring(lane FROM '~(task:[^~*+#]*#?)'), 1
    FROM detent.detent_running
    WHERE task_gate IS NOT NULL
    UNION ALL
    SELECT 'queue:' || substring(lane FROM '^[^~+]*'), 1
    FROM detent.detent_running
    WHERE queue_gate IS NOT NULL
), used AS (
    SELECT name, sum(weight) AS weight FROM held GROUP BY name
)
SELECT known.name, known.concurrency, known.rate_count, known.rate_per, known.burst,
    known.algorithm, known.weight, known.ordered, known.declared, known.edited,
    coalesce((SELECT used.weight FROM used WHERE used.name = known.name), 0)::integer AS running
FROM detent.detent_limit AS known
ORDER BY known.name
