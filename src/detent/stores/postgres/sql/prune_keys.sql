-- Delete idempotency keys that have expired, but for those that somebody is just taking.
-- $1 limit
DELETE FROM detent.detent_key
WHERE ctid = ANY (ARRAY(
    SELECT expired.row
    FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock
    CROSS JOIN LATERAL (
        SELECT ctid AS row
        FROM detent.detent_key
        WHERE expires_at <= clock.now
        ORDER BY expires_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS expired
))
RETURNING 1
