-- Ask running jobs to stop. Their nodes find the message; the first request stands.
-- $1 ids  $2 generation or NULL for any  $3 reason
WITH running AS (
    -- Locked, so that a job which ends at this moment has either seen the message or is gone;
    -- not so strongly that a task's own transaction would have to end first.
    SELECT id, node FROM detent.detent_running
    WHERE id = ANY($1::uuid[]) AND ($2::integer IS NULL OR generation = $2)
    ORDER BY id
    FOR KEY SHARE
), asked AS (
    INSERT INTO detent.detent_signal (id, kind, reason, created_at)
    SELECT id, 'cancel', $3::text, clock_timestamp() FROM running
    ON CONFLICT (id, kind) DO NOTHING
    RETURNING id
)
-- Those asked for the first time say so, so that a page of requests comes to an end.
SELECT running.id, running.node, asked.id IS NOT NULL AS new
FROM running
LEFT JOIN asked ON asked.id = running.id
