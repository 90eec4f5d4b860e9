-- Store new jobs: the full row once, and a narrow row where claims look.
-- ?1 ids in one blob  ?2 the jobs as JSON: arrays of task, queue, lane, priority, delay in
-- microseconds, due_at or null, codec, tags, hooks, principal, trace, and where args, options and
-- params begin in ?4 and how long they are (null for none)  ?3 now  ?4 the payloads in one blob
-- ?5 the last moment there is

-- step: ready
-- First, while the jobs that are known already can be told from the new ones.
INSERT INTO detent_ready (id, lane, priority, due_at, hooks)
SELECT substr(?1, new.key * 16 + 1, 16), json_extract(new.value, '$[2]'),
    json_extract(new.value, '$[3]'),
    coalesce(json_extract(new.value, '$[5]'), min(?3 + json_extract(new.value, '$[4]'), ?5)),
    json_extract(new.value, '$[8]')
FROM json_each(?2) AS new
-- An id that is known already was stored by an earlier try whose reply was lost.
WHERE NOT EXISTS (SELECT 1 FROM detent_job WHERE id = substr(?1, new.key * 16 + 1, 16))
ON CONFLICT (id) DO NOTHING

-- step: job
INSERT INTO detent_job (
    id, task, queue, lane, priority, due_at, enqueued_at, codec, tags, hooks, principal, trace,
    args, options, params
)
SELECT
    substr(?1, new.key * 16 + 1, 16), json_extract(new.value, '$[0]'),
    json_extract(new.value, '$[1]'), json_extract(new.value, '$[2]'),
    json_extract(new.value, '$[3]'),
    coalesce(json_extract(new.value, '$[5]'), min(?3 + json_extract(new.value, '$[4]'), ?5)), ?3,
    json_extract(new.value, '$[6]'), json_extract(new.value, '$[7]'),
    json_extract(new.value, '$[8]'), json_extract(new.value, '$[9]'),
    json_extract(new.value, '$[10]'),
    substr(?4, json_extract(new.value, '$[11]'), json_extract(new.value, '$[12]')),
    substr(?4, json_extract(new.value, '$[13]'), json_extract(new.value, '$[14]')),
    substr(?4, json_extract(new.value, '$[15]'), json_extract(new.value, '$[16]'))
FROM json_each(?2) AS new
-- Says to the parser that ON belongs to the insert.
WHERE true
ON CONFLICT (id) DO NOTHING

-- step: tags
-- Only for jobs with tags; of an id that came twice the tags of the first were kept.
INSERT INTO detent_tag (tag, id)
SELECT tag.value, job.id
FROM detent_ids(?1) AS new
CROSS JOIN detent_job AS job ON job.id = new.id
CROSS JOIN json_each(job.tags) AS tag
WHERE job.tags IS NOT NULL
ON CONFLICT DO NOTHING
