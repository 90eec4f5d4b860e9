-- Append log lines of running jobs.
-- $1 incarnation  $2 ids  $3 fences  $4 attempts  $5 levels  $6 messages: one array each
WITH mine AS (
    -- Locked: merely reading the claim is no fence against a rescue at the same moment.
    SELECT running.id, running.fence
    FROM detent.detent_running AS running
    WHERE running.id = ANY($2::uuid[]) AND running.node = $1
    ORDER BY running.id
    FOR KEY SHARE
)
INSERT INTO detent.detent_log (id, at, attempt, level, message)
SELECT said.id, clock_timestamp(), said.attempt, said.level, said.message
FROM unnest($2::uuid[], $3::bigint[], $4::integer[], $5::text[], $6::text[])
    WITH ORDINALITY AS said (id, fence, attempt, level, message, number)
JOIN mine ON mine.id = said.id AND mine.fence = said.fence
ORDER BY said.number
