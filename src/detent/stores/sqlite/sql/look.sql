-- The first due job of each lane and priority, from the very beginning. Queues that are paused
-- or have a limit are left out: claim_jobs takes nothing from them.
-- ?1 lanes as JSON  ?2 now
SELECT scan.value AS lane, level.value AS priority, ready.due_at, ready.id
FROM json_each(?1) AS scan
CROSS JOIN json_each('[0,1,2,3,4]') AS level
CROSS JOIN detent_ready AS ready
    ON ready.id = (
        SELECT head.id FROM detent_ready AS head
        WHERE head.lane = scan.value AND head.priority = level.value AND head.due_at <= ?2
        ORDER BY head.due_at, head.id
        LIMIT 1
    )
WHERE NOT EXISTS (
    SELECT 1 FROM detent_queue AS queue
    WHERE queue.name = substr(
        scan.value, 1, min(instr(scan.value || '+', '+'), instr(scan.value || '~', '~')) - 1
    )
        AND (queue.paused_at IS NOT NULL OR queue.limited)
)
