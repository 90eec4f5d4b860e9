-- Remove claims whose job has no row, with what else is kept of the job.
-- ?1 ids in one blob

-- step: found
SELECT CAST(json_group_array(json_array(hex(id), fence, hex(node), lane)) AS BLOB)
FROM (
    SELECT running.id, running.fence, running.node, running.lane
    FROM detent_ids(?1) AS said
    CROSS JOIN detent_running AS running ON running.id = said.id
    ORDER BY running.id
)

-- step: gone
DELETE FROM detent_running WHERE id IN (SELECT id FROM detent_ids(?1))

-- step: unsignaled
DELETE FROM detent_signal WHERE id IN (SELECT id FROM detent_ids(?1))

-- step: unprogressed
DELETE FROM detent_progress WHERE id IN (SELECT id FROM detent_ids(?1))

-- step: unkeyed
-- Which key it was only the job's row could tell, so all business keys are read.
DELETE FROM detent_key WHERE kind = 'unique' AND job IN (SELECT id FROM detent_ids(?1))
