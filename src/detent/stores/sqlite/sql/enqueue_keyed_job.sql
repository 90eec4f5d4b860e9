-- Store one new job that holds keys, claimable or parked behind another.
-- ?1 id  ?2 task  ?3 queue  ?4 lane  ?5 priority  ?6 delay in microseconds  ?7 due_at or NULL
-- ?8 args  ?9 codec  ?10 options  ?11 params  ?12 tags as JSON or NULL  ?13 hooks
-- ?14 principal  ?15 trace  ?16 now  ?17 the last moment there is
-- ?18 idempotency key  ?19 business key

-- step: lock
-- Changes nothing; but a caller's transaction that has only read until now has the write lock.
UPDATE detent_fence SET value = value

-- step: known
-- An id that is known already was stored by an earlier try whose reply was lost.
-- ?1 id
SELECT CAST(json_group_array(1) AS BLOB) FROM detent_job WHERE id = ?1

-- step: job
INSERT INTO detent_job (
    id, task, queue, lane, priority, due_at, enqueued_at, args, codec, options, params, tags,
    hooks, principal, trace, idempotency_key, unique_key
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, coalesce(?7, min(?16 + ?6, ?17)), ?16, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
    ?18, ?19
)

-- step: parked
-- ?1 id  ?2 now  ?3 the job it waits for
INSERT INTO detent_parked (
    id, reason, waits_for, waiting_for, parked_at, due_at, attempt, generation, priority, crashes,
    hooks, lane
)
SELECT id, 'replaces', ?3, 1, ?2, due_at, 1, 1, priority, 0, hooks, lane
FROM detent_job WHERE id = ?1
