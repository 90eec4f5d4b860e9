-- Take a business key of a task unless a live job holds it. Returns a row when it is ours.
-- DO NOTHING, since DO UPDATE would lock the holder's row before the holder's job, and finishing
-- jobs lock in the other order.
-- $1 key  $2 job  $3 task
INSERT INTO detent.detent_key (kind, key, scope, job)
VALUES ('unique', $1, $3, $2)
ON CONFLICT (kind, key, scope) DO NOTHING
RETURNING job
