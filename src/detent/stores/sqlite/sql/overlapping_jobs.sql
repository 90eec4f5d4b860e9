-- The jobs of a schedule that still live, the one fired last first. Only jobs whose end wakes others
-- count (the hook SLOT), since who waited for another would wait for ever.
-- ?1 schedule  ?2 jobs that are being fired and do not count, in one blob  ?3 how many are wanted
SELECT CAST(json_group_array(json_array(hex(job), runs, hex(waits_for))) AS BLOB)
FROM (
    SELECT live.job,
        running.id IS NOT NULL AS runs,
        parked.waits_for
    FROM detent_slot AS live
    LEFT JOIN detent_running AS running ON running.id = live.job
    LEFT JOIN detent_ready AS ready ON ready.id = live.job
    LEFT JOIN detent_parked AS parked ON parked.id = live.job
    WHERE live.schedule = ?1 AND live.live AND live.job NOT IN (SELECT id FROM detent_ids(?2))
        AND coalesce(running.hooks, ready.hooks, parked.hooks, 0) & 8
    ORDER BY live.fired_at DESC
    -- Within the limit: a hundred that have ended may stand before one that lives.
    LIMIT ?3
)
