-- The slots of a schedule whose jobs have not ended.
-- ?1 schedule
SELECT slot.schedule, slot.slot, slot.fired_at, slot.state, slot.job, slot.manual
FROM detent_slot AS slot
WHERE slot.schedule = ?1 AND slot.live
    AND (
        EXISTS (SELECT 1 FROM detent_running WHERE id = slot.job)
        OR EXISTS (SELECT 1 FROM detent_ready WHERE id = slot.job)
        OR EXISTS (SELECT 1 FROM detent_parked WHERE id = slot.job)
    )
ORDER BY slot.fired_at
