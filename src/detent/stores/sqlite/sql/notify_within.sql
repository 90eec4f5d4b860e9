-- Announce new jobs in the transaction that inserts them: told if and when it commits, with the
-- first position of each lane and priority.
-- ?1 ids in one blob
INSERT INTO detent_wake (payload)
SELECT json_group_array(json_array(lane, priority, due_at, lower(hex(id))))
FROM (
    SELECT lane, priority, min(due_at) AS due_at, id
    FROM detent_ids(?1) AS new
    CROSS JOIN detent_job AS job USING (id)
    GROUP BY lane, priority
)
