-- Count failures; the first of its kind in a window writes an event for each sink.

-- step: known
-- ?1 task  ?2 fingerprint  ?3 begin of the oldest open window  ?4 last job  ?5 count  ?6 now
UPDATE detent_alert SET count = count + ?5, last_job = ?4, last_at = ?6
WHERE task = ?1 AND fingerprint = ?2 AND window_start > ?3

-- step: kinds
-- ?1 task  ?2 begin of the oldest open window
SELECT count(*) FROM detent_alert WHERE task = ?1 AND window_start > ?2 AND fingerprint <> '*'

-- step: raised
-- ?1 task  ?2 fingerprint  ?3 start of the window  ?4 type  ?5 message  ?6 frame  ?7 first job
-- ?8 last job  ?9 count  ?10 now
INSERT INTO detent_alert (
    task, fingerprint, window_start, type, message, frame, first_job, last_job, first_at, last_at,
    count
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?10, ?10, ?9)

-- step: told
-- ?1 task  ?2 fingerprint  ?3 start of the window  ?4 sinks as JSON  ?5 now
INSERT INTO detent_event (
    sink, kind, job, task, queue, generation, attempt, at, alert, created_at, due_at
)
SELECT sink.value, 'alert', alert.first_job, alert.task, '', 0, 0, alert.first_at, alert.id, ?5, ?5
FROM detent_alert AS alert
CROSS JOIN json_each(?4) AS sink
WHERE alert.task = ?1 AND alert.fingerprint = ?2 AND alert.window_start = ?3
