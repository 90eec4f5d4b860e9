-- Take the jobs from slots that another job stands in the way of.
-- ?1 arrays of schedule and slot as JSON
UPDATE detent_slot SET state = 'skipped_overlap', job = NULL, live = 0
WHERE (schedule, slot) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1)
)
