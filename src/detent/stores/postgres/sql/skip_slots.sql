-- Take the jobs from slots that another job stands in the way of.
-- $1 schedule  $2 slot: one array each
UPDATE detent.detent_slot AS slot
SET state = 'skipped_overlap', job = NULL, live = false
FROM unnest($1::text[], $2::timestamptz[]) AS said (schedule, slot)
-- A range of one slot: see settle_jobs.
WHERE slot.schedule >= said.schedule AND slot.schedule <= said.schedule
    AND slot.slot >= said.slot AND slot.slot <= said.slot
