-- The claims whose job has no row. Claims of nodes without a row are found by find_lost: there are
-- no dead rows among which they would have to be searched.
-- ?1 how many at most
SELECT CAST(json_group_array(hex(id)) AS BLOB)
FROM (
    SELECT id FROM detent_running
    WHERE NOT EXISTS (SELECT 1 FROM detent_job WHERE detent_job.id = detent_running.id)
    ORDER BY id
    LIMIT ?1
)
