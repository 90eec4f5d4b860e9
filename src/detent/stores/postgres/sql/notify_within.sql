-- Announce new jobs in the transaction that inserts them: delivered if and when it commits. One
-- notification for each lane and priority, since a payload is limited; equal ones are sent once. Of
-- many jobs with keys only the limit is told, as for a key without a letter.
-- A lone job that is due gets a token, by which the nodes choose one of them to claim it first.
-- $1 channel  $2 ids
SELECT pg_notify($1, json_build_array(CASE
    WHEN cardinality($2::uuid[]) = 1 AND first.due_at <= clock_timestamp() THEN json_build_array(
        first.lane, first.priority,
        (extract(epoch FROM first.due_at) * 1000000)::bigint,
        replace(first.id::text, '-', ''),
        ('x' || right(first.id::text, 4))::bit(16)::integer
    )
    ELSE json_build_array(
        first.lane, first.priority,
        (extract(epoch FROM first.due_at) * 1000000)::bigint,
        replace(first.id::text, '-', '')
    )
END)::text)
FROM (
    SELECT DISTINCT ON (told.lane, priority) told.lane, priority, due_at, id
    -- Not from the queue, whose index has all of this and might be read from end to end for it.
    FROM detent.detent_job AS job
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN cardinality($2::uuid[]) > 64 AND split_part(job.lane, '~', 2) LIKE 'task:%#%'
                AND split_part(job.lane, '~', 3) = ''
            THEN split_part(job.lane, '#', 1) || '#' ELSE job.lane END AS lane
    ) AS told
    WHERE id = ANY($2::uuid[])
    ORDER BY told.lane, priority, due_at, id
) AS first
