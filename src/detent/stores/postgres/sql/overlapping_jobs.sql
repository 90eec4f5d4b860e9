-- The jobs of schedules that still live, those fired last first. Only jobs whose end wakes others
-- count (the hook SLOT), since who waited for another would wait for ever.
-- $1 schedules  $2 jobs that are being fired and do not count  $3 how many of each are wanted
SELECT live.schedule, live.job, live.runs, live.waits_for
FROM unnest($1::text[]) AS wanted (schedule)
CROSS JOIN LATERAL (
    SELECT slot.schedule, slot.fired_at, slot.job, place.runs, place.waits_for
    FROM detent.detent_slot AS slot
    -- Within the limit: a hundred that have ended may stand before one that lives.
    CROSS JOIN LATERAL (
        SELECT true AS runs, NULL::uuid AS waits_for FROM detent.detent_running AS running
        WHERE running.id = slot.job AND running.hooks & 8 <> 0
        UNION ALL
        SELECT false, NULL FROM detent.detent_ready AS ready
        WHERE ready.id = slot.job AND ready.hooks & 8 <> 0
        UNION ALL
        SELECT false, parked.waits_for FROM detent.detent_parked AS parked
        WHERE parked.id = slot.job AND parked.hooks & 8 <> 0
    ) AS place
    -- A range of one name, since only so the index of live slots alone gives the order.
    WHERE slot.schedule >= wanted.schedule AND slot.schedule <= wanted.schedule AND slot.live
        AND slot.job <> ALL($2::uuid[])
    ORDER BY slot.schedule DESC, slot.fired_at DESC
    LIMIT $3
) AS live
ORDER BY live.schedule, live.fired_at DESC
