-- Delete slots whose time is over, unless their job still lives.
-- $1 how long they are kept, in seconds  $2 limit
-- $3 role  $4 term  $5 node of the leader who does it; NULL for anybody else
WITH leader AS MATERIALIZED (
    SELECT 1 FROM detent.detent_leader
    WHERE role = $3::text AND term = $4::bigint AND node = $5::uuid
    FOR KEY SHARE
), clock AS MATERIALIZED (
    SELECT clock_timestamp() - $1::float8 * interval '1 second' AS before
)
DELETE FROM detent.detent_slot
WHERE ctid = ANY (ARRAY(
    SELECT old.row
    FROM clock
    CROSS JOIN LATERAL (
        SELECT slot.ctid AS row FROM detent.detent_slot AS slot
        WHERE slot.fired_at <= clock.before AND ($3::text IS NULL OR EXISTS (SELECT 1 FROM leader))
            -- OFFSET: see close_slots.
            AND NOT EXISTS (SELECT 1 FROM detent.detent_running WHERE id = slot.job OFFSET 0)
            AND NOT EXISTS (SELECT 1 FROM detent.detent_ready WHERE id = slot.job OFFSET 0)
            AND NOT EXISTS (SELECT 1 FROM detent.detent_parked WHERE id = slot.job OFFSET 0)
        ORDER BY slot.fired_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS old
))
RETURNING schedule
