-- Let the jobs go that waited for jobs which have ended now.
-- ?1 ids of the ended jobs in one blob  ?2 now

-- step: woken
SELECT CAST(json_group_array(json_array(lane)) AS BLOB)
FROM detent_parked WHERE waits_for IN (SELECT id FROM detent_ids(?1))

-- step: ready
INSERT INTO detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane
)
-- A job that waited is due now at the earliest; its due time is when it may be seen by claims.
SELECT id, max(due_at, ?2), attempt, generation, priority, crashes, hooks, lane
FROM detent_parked WHERE waits_for IN (SELECT id FROM detent_ids(?1))

-- step: gone
DELETE FROM detent_parked WHERE waits_for IN (SELECT id FROM detent_ids(?1))
