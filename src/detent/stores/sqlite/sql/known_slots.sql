-- What was written before about these slots, with the very same jobs: a call that is repeated.
-- ?1 arrays of schedule and slot as JSON  ?2 the jobs in one blob, sixteen bytes each
SELECT CAST(json_group_array(json_array(found.schedule, found.slot, found.state, hex(found.job)))
    AS BLOB)
FROM json_each(?1) AS said
CROSS JOIN detent_slot AS found ON found.schedule = json_extract(said.value, '$[0]')
    AND found.slot = json_extract(said.value, '$[1]')
WHERE found.job = substr(?2, said.key * 16 + 1, 16)
