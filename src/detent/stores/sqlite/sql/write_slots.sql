-- Write slots that are not there yet; only these get a job. The key decides, whoever comes twice.
-- ?1 arrays of schedule, slot, state and whether it has a job (0 or 1) as JSON

-- step: new
-- ?2 whether by hand: then a slot that was left out gets its job all the same
SELECT CAST(json_group_array(said.key) AS BLOB)
FROM json_each(?1) AS said
WHERE NOT EXISTS (
    SELECT 1 FROM detent_slot
    WHERE schedule = json_extract(said.value, '$[0]') AND slot = json_extract(said.value, '$[1]')
        AND NOT (?2 AND job IS NULL AND json_extract(said.value, '$[3]'))
)

-- step: slots
-- ?2 the jobs in one blob, sixteen bytes each  ?3 now  ?4 whether by hand
INSERT INTO detent_slot (schedule, slot, fired_at, job, state, manual, live)
SELECT json_extract(said.value, '$[0]'), json_extract(said.value, '$[1]'),
    -- Each row gets its own microsecond, so that a batch keeps its order.
    ?3 + said.key,
    CASE WHEN json_extract(said.value, '$[3]') THEN substr(?2, said.key * 16 + 1, 16) END,
    json_extract(said.value, '$[2]'), ?4, json_extract(said.value, '$[3]')
FROM json_each(?1) AS said
-- Says to the parser that ON belongs to the insert.
WHERE true
ON CONFLICT (schedule, slot) DO UPDATE SET
    fired_at = excluded.fired_at,
    job = excluded.job,
    state = excluded.state,
    manual = 1,
    live = 1
WHERE excluded.manual AND excluded.job IS NOT NULL AND detent_slot.job IS NULL
