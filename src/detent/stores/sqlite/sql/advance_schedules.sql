-- Move fired schedules on to their next slot.

-- step: revision
-- One counter for all: a name can be used anew, and its revisions still only grow.
UPDATE detent_fence SET value = value + 1 WHERE name = 'schedule'

-- step: number
SELECT value FROM detent_fence WHERE name = 'schedule'

-- step: schedules
-- ?1 arrays of name, next slot, last slot, slots that were to get a job, problem and when firers
-- look at it next, as JSON  ?2 revision
UPDATE detent_schedule
SET next_fire = json_extract(said.value, '$[1]'),
    prev_fire = coalesce(json_extract(said.value, '$[2]'), prev_fire),
    runs = runs + json_extract(said.value, '$[3]'),
    problem = json_extract(said.value, '$[4]'),
    due_at = json_extract(said.value, '$[5]'),
    revision = ?2
FROM json_each(?1) AS said
WHERE detent_schedule.name = json_extract(said.value, '$[0]')
