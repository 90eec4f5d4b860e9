-- Store one new job: as enqueue_jobs, without the cost of JSON.
-- ?1 id  ?2 task  ?3 queue  ?4 lane  ?5 priority  ?6 delay in microseconds  ?7 due_at or NULL
-- ?8 args  ?9 codec  ?10 options  ?11 params  ?12 tags as JSON or NULL  ?13 hooks
-- ?14 principal  ?15 trace  ?16 now  ?17 the last moment there is

-- step: job
INSERT INTO detent_job (
    id, task, queue, lane, priority, due_at, enqueued_at, args, codec, options, params, tags,
    hooks, principal, trace
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, coalesce(?7, min(?16 + ?6, ?17)), ?16, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15
)
ON CONFLICT (id) DO NOTHING

-- step: ready
-- ?1 id
INSERT INTO detent_ready (id, lane, priority, due_at, hooks)
SELECT id, lane, priority, due_at, hooks FROM detent_job WHERE id = ?1

-- step: tags
-- ?1 id  ?2 tags as JSON
INSERT INTO detent_tag (tag, id)
SELECT DISTINCT value, ?1 FROM json_each(?2)
