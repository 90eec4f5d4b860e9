-- Note the ends of jobs, so that nobody looks at their slots again; the oldest of each schedule.
-- $1 schedules  $2 how many of each
UPDATE detent.detent_slot SET live = false
WHERE ctid = ANY (ARRAY(
    SELECT old.row
    FROM unnest($1::text[]) AS wanted (schedule)
    CROSS JOIN LATERAL (
        SELECT slot.ctid AS row, slot.job FROM detent.detent_slot AS slot
        -- A range of one name: see overlapping_jobs.
        WHERE slot.schedule >= wanted.schedule AND slot.schedule <= wanted.schedule AND slot.live
        ORDER BY slot.schedule, slot.fired_at
        LIMIT $2
    ) AS old
    -- OFFSET keeps each a look at one id, and not a join that may read all of them.
    WHERE NOT EXISTS (SELECT 1 FROM detent.detent_running WHERE id = old.job OFFSET 0)
        AND NOT EXISTS (SELECT 1 FROM detent.detent_ready WHERE id = old.job OFFSET 0)
        AND NOT EXISTS (SELECT 1 FROM detent.detent_parked WHERE id = old.job OFFSET 0)
))
