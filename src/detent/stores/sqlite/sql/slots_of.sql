-- The slots of a schedule, the latest first.
-- ?1 schedule  ?2 the slot behind the page, or the end of time  ?3 limit
SELECT schedule, slot, fired_at, state, job, manual
FROM detent_slot
WHERE schedule = ?1 AND slot < ?2
ORDER BY slot DESC
LIMIT ?3
