-- All limits, and how much of each is taken by running jobs.
WITH held AS (
    SELECT resource_gate AS name, coalesce(weight, 1) AS weight
    FROM detent_running WHERE resource_gate IS NOT NULL
    UNION ALL
    -- The limit of a gate with a key is named by all but its key.
    SELECT CASE WHEN instr(task_gate, '#') THEN substr(task_gate, 1, instr(task_gate, '#'))
            ELSE task_gate END, 1
    FROM detent_running WHERE task_gate IS NOT NULL
    UNION ALL
    SELECT queue_gate, 1
    FROM detent_running WHERE queue_gate IS NOT NULL
), used AS (
    SELECT name, sum(weight) AS weight FROM held GROUP BY name
)
SELECT known.name, known.concurrency, known.rate_count, known.rate_per, known.burst,
    known.algorithm, known.weight, known.ordered, known.declared, known.edited,
    coalesce((SELECT used.weight FROM used WHERE used.name = known.name), 0) AS running
FROM detent_limit AS known
ORDER BY known.name
