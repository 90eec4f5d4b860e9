-- The slots of a schedule, the latest first.
-- $1 schedule  $2 the slot behind the page, or NULL  $3 limit
SELECT schedule, slot, fired_at, state, job, manual
FROM detent.detent_slot
WHERE schedule = $1 AND slot < coalesce($2::timestamptz, 'infinity')
ORDER BY slot DESC
LIMIT $3
