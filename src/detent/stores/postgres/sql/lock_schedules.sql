-- Take the schedules that are still as they were planned for; whoever holds one fires it.
-- $1 names, sorted  $2 the revisions that were seen: one array each
SELECT mine.name
FROM unnest($1::text[], $2::bigint[]) AS plan (name, revision)
CROSS JOIN LATERAL (
    SELECT schedule.name FROM detent.detent_schedule AS schedule
    WHERE schedule.name = plan.name AND schedule.revision = plan.revision
        AND schedule.paused_at IS NULL
    FOR UPDATE SKIP LOCKED
) AS mine
