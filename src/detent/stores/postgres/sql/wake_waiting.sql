-- Let the jobs go that waited for jobs which have ended now. Returns their lanes.
-- $1 ids of the ended jobs
WITH woken AS (
    DELETE FROM detent.detent_parked WHERE waits_for = ANY($1::uuid[]) RETURNING *
)
INSERT INTO detent.detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane
)
-- A job that waited is due now at the earliest; its due time is when it may be seen by claims.
SELECT id, greatest(due_at, clock_timestamp()), attempt, generation, priority, crashes, hooks, lane
FROM woken
RETURNING lane
