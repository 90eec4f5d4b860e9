-- What was written before about these slots, with the very same jobs: a call that is repeated.
-- $1 schedule  $2 slot  $3 job: one array each
SELECT known.schedule, known.slot, known.state, known.job
FROM unnest($1::text[], $2::timestamptz[], $3::uuid[]) AS said (schedule, slot, job)
CROSS JOIN LATERAL (
    SELECT * FROM detent.detent_slot AS found
    WHERE found.schedule = said.schedule AND found.slot = said.slot AND found.job = said.job
    OFFSET 0
) AS known
