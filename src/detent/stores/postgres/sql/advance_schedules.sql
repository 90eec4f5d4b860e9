-- Move fired schedules on to their next slot.
-- $1 name  $2 next slot or NULL  $3 last slot or NULL  $4 slots that were to get a job  $5 problem
-- $6 how long to leave it alone in seconds, or NULL: one array each
UPDATE detent.detent_schedule AS schedule
SET next_fire = said.next_fire,
    due_at = CASE WHEN said.hold IS NULL THEN said.next_fire
        ELSE clock_timestamp() + said.hold * interval '1 second' END,
    prev_fire = coalesce(said.prev_fire, schedule.prev_fire),
    runs = schedule.runs + said.runs,
    problem = said.problem,
    revision = nextval('detent.detent_schedule_revision')
FROM unnest(
    $1::text[], $2::timestamptz[], $3::timestamptz[], $4::integer[], $5::text[], $6::float8[]
) AS said (name, next_fire, prev_fire, runs, problem, hold)
-- A range of one name: see settle_jobs.
WHERE schedule.name >= said.name AND schedule.name <= said.name
