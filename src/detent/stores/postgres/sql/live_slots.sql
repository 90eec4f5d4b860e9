-- The slots of a schedule whose jobs have not ended.
-- $1 schedule
SELECT slot.schedule, slot.slot, slot.fired_at, slot.state, slot.job, slot.manual
FROM detent.detent_slot AS slot
-- A range of one name: see overlapping_jobs.
WHERE slot.schedule >= $1 AND slot.schedule <= $1 AND slot.live
    AND (
        -- OFFSET: see close_slots.
        EXISTS (SELECT 1 FROM detent.detent_running WHERE id = slot.job OFFSET 0)
        OR EXISTS (SELECT 1 FROM detent.detent_ready WHERE id = slot.job OFFSET 0)
        OR EXISTS (SELECT 1 FROM detent.detent_parked WHERE id = slot.job OFFSET 0)
    )
ORDER BY slot.schedule, slot.fired_at
