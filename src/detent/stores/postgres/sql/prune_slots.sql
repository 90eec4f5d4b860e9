-- Delete slots whose time is over, unless their job still lives.
-- $1 how long they are kept, in seconds  $2 limit
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() - $1::float8 * interval '1 second' AS before
)
DELETE FROM detent.detent_slot
WHERE ctid = ANY (ARRAY(
    SELECT old.row
    FROM clock
    CROSS JOIN LATERAL (
        SELECT slot.ctid AS row FROM detent.detent_slot AS slot
        WHERE slot.fired_at <= clock.before
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
