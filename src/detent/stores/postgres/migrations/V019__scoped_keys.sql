-- Keys belong to a task, and an idempotency key knows what the arguments of its job come to.
ALTER TABLE detent.detent_key ADD COLUMN scope text, ADD COLUMN digest bytea;
UPDATE detent.detent_key SET scope = job.task
FROM detent.detent_job AS job WHERE job.id = detent_key.job;
-- What leads to no job leads nowhere.
DELETE FROM detent.detent_key WHERE scope IS NULL;
ALTER TABLE detent.detent_key
    ALTER COLUMN scope SET NOT NULL,
    DROP CONSTRAINT detent_key_pkey,
    ADD PRIMARY KEY (kind, key, scope);
