-- Write slots that are not there yet; only these get a job. The key decides, whoever comes twice.
-- $1 schedule  $2 slot  $3 job or NULL  $4 state: one array each  $5 whether by hand
INSERT INTO detent.detent_slot (schedule, slot, fired_at, job, state, manual, live)
-- Not now(): each row gets its own microsecond, so that a batch keeps its order.
SELECT said.schedule, said.slot, clock_timestamp(), said.job, said.state, $5, said.job IS NOT NULL
FROM unnest($1::text[], $2::timestamptz[], $3::uuid[], $4::text[])
    AS said (schedule, slot, job, state)
-- A slot that was left out gets its job all the same if somebody wants it by hand.
ON CONFLICT (schedule, slot) DO UPDATE SET
    fired_at = excluded.fired_at,
    job = excluded.job,
    state = excluded.state,
    manual = true,
    live = true
WHERE excluded.manual AND excluded.job IS NOT NULL AND detent_slot.job IS NULL
RETURNING schedule, slot
