-- Count failures; the first of its kind in a window writes an event for each sink. Runs behind
-- lock_alerts.
-- $1 task  $2 fingerprint  $3 type  $4 message  $5 frame  $6 first job  $7 last job  $8 count: one
-- array each, sorted by task and fingerprint, no pair twice  $9 window in seconds  $10 sinks
-- $11 the most kinds of one task  $12 $13 $14 fingerprint, type and message of what is beyond them
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), said AS (
    SELECT *
    FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::uuid[],
        $8::bigint[]
    ) AS said (task, fingerprint, type, message, frame, first_job, last_job, count)
), opened AS MATERIALIZED (
    SELECT task, fingerprint, window_start
    FROM detent.detent_alert
    WHERE task = ANY (ARRAY(SELECT DISTINCT task FROM said))
        AND window_start > (SELECT now FROM moment) - make_interval(secs => $9::float8)
), ranked AS (
    -- The new kinds of each task, numbered, so that only the first ones get an alert of their own.
    SELECT said.*, opened.window_start,
        row_number() OVER (
            PARTITION BY said.task, opened.window_start IS NULL ORDER BY said.fingerprint
        ) + (
            SELECT count(*) FROM opened AS kind
            WHERE kind.task = said.task AND kind.fingerprint <> $12::text
        ) > $11::integer AND opened.window_start IS NULL AS is_beyond
    FROM said
    LEFT JOIN opened USING (task, fingerprint)
), counted AS (
    SELECT task, fingerprint, window_start, type, message, frame, first_job, last_job, count
    FROM ranked
    WHERE NOT is_beyond
    UNION ALL
    SELECT ranked.task, $12::text, opened.window_start, $13::text, $14::text, '',
        (array_agg(ranked.first_job ORDER BY ranked.fingerprint))[1],
        (array_agg(ranked.last_job ORDER BY ranked.fingerprint DESC))[1], sum(ranked.count)
    FROM ranked
    LEFT JOIN opened ON opened.task = ranked.task AND opened.fingerprint = $12::text
    WHERE ranked.is_beyond
    GROUP BY ranked.task, opened.window_start
), raised AS (
    INSERT INTO detent.detent_alert AS known (
        task, fingerprint, window_start, type, message, frame, first_job, last_job, first_at,
        last_at, count
    )
    SELECT task, fingerprint, coalesce(window_start, now), type, message, frame, first_job,
        last_job, now, now, count
    FROM counted CROSS JOIN moment
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
