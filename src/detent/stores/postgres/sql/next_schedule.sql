-- How long until the first schedule is due? The index begins with it.
-- $1 tasks that the asking node knows
SELECT date_part('epoch', due_at - clock_timestamp())::float8 AS seconds
FROM detent.detent_schedule
WHERE due_at IS NOT NULL AND paused_at IS NULL AND task = ANY($1::text[])
    -- Every one, but said so that the index is walked from its beginning.
    AND due_at > '-infinity'
ORDER BY due_at
LIMIT 1
