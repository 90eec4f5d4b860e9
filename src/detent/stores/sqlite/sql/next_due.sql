-- When is the first job of each queue due, in some of its lanes? Queues without one have no row.
-- ?1 arrays of lane, queue and five times where scans begin, as JSON  ?2 the five ids where the
-- scans of each lane begin, in one blob
SELECT json_extract(scan.value, '$[1]') AS queue, min((
    SELECT ready.due_at
    FROM detent_ready AS ready
    WHERE ready.lane = json_extract(scan.value, '$[0]')
        AND ready.priority = level.value
        AND (ready.due_at, ready.id) >= (
            json_extract(scan.value, '$[2][' || level.value || ']'),
            substr(?2, (scan.key * 5 + level.value) * 16 + 1, 16)
        )
    ORDER BY ready.due_at, ready.id
    LIMIT 1
)) AS due_at
FROM json_each(?1) AS scan
CROSS JOIN json_each('[0,1,2,3,4]') AS level
WHERE NOT EXISTS (
    SELECT 1 FROM detent_queue AS queue
    WHERE queue.name = json_extract(scan.value, '$[1]') AND (queue.paused_at IS NOT NULL OR queue.limited)
)
GROUP BY 1
HAVING due_at IS NOT NULL
