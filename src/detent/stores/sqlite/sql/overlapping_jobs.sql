-- The jobs of a schedule that still live, the one fired last first. Only jobs whose end wakes others
-- count (the hook SLOT), since who waited for another would wait for ever.
-- ?1 schedule  ?2 jobs that are being fired and do not count, in one blob  ?3 how many to look at
SELECT CAST(json_group_array(json_array(hex(job), runs, hex(waits_for))) AS BLOB)
FROM (
    SELECT live.job,
        running.id IS NOT NULL AS runs,
        parked.waits_for,
        live.fired_at
    FROM (
        SELECT job, fired_at FROM detent_slot
        WHERE schedule = ?1 AND live AND job NOT IN (SELECT id FROM detent_ids(?2))
        ORDER BY fired_at DESC
        LIMIT ?3
    ) AS live
    LEFT JOIN detent_running AS running ON running.id = live.job
    LEFT JOIN detent_ready AS ready ON ready.id = live.job
    LEFT JOIN detent_parked AS parked ON parked.id = live.job
    WHERE coalesce(running.hooks, ready.hooks, parked.hooks, 0) & 8
    ORDER BY live.fired_at DESC
)
