-- Count failures; the first of its kind in a window writes an event for each sink.
-- $1 task  $2 fingerprint  $3 type  $4 message  $5 frame  $6 first job  $7 last job  $8 count: one
-- array each, sorted by task and fingerprint, no pair twice  $9 window in seconds  $10 sinks
WITH raised AS (
    INSERT INTO detent.detent_alert AS known (
        task, fingerprint, window_start, type, message, frame, first_job, last_job, first_at,
        last_at, count
    )
    SELECT said.task, said.fingerprint,
        to_timestamp(floor(extract(epoch FROM clock_timestamp()) / $9::float8) * $9::float8),
        said.type, said.message, said.frame, said.first_job, said.last_job, clock_timestamp(),
        clock_timestamp(), said.count
    FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::uuid[],
        $8::bigint[]
    ) AS said (task, fingerprint, type, message, frame, first_job, last_job, count)
    ON CONFLICT (task, fingerprint, window_start) DO UPDATE
    SET count = known.count + excluded.count,
        last_job = excluded.last_job,
        last_at = excluded.last_at
    -- A row that was inserted, and not updated, was changed by nobody before.
    RETURNING id, task, first_job, first_at, xmax = 0 AS is_new
), told AS (
    INSERT INTO detent.detent_event (
        sink, kind, job, task, queue, generation, attempt, at, alert, created_at, due_at
    )
    SELECT sink.name, 'alert', raised.first_job, raised.task, '', 0, 0, raised.first_at, raised.id,
        clock_timestamp(), clock_timestamp()
    FROM raised
    CROSS JOIN unnest($10::text[]) AS sink (name)
    WHERE raised.is_new
)
SELECT id FROM raised WHERE is_new
