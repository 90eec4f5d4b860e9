-- Take a business key unless a live job holds it. Returns a row when it is ours.
-- DO NOTHING, since DO UPDATE would lock the holder's row before the holder's job, and finishing
-- jobs lock in the other order.
-- $1 key  $2 job
INSERT INTO detent.detent_key (kind, key, job)
VALUES ('unique', $1, $2)
ON CONFLICT (kind, key) DO NOTHING
RETURNING job
