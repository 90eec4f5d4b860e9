-- Keys belong to a task, and an idempotency key knows what the arguments of its job come to. The
-- primary key of a table cannot be changed, so the rows move to a new one.
ALTER TABLE detent_key RENAME TO detent_key_before;
DROP INDEX detent_key_expires_at;
CREATE TABLE detent_key (
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    -- The task that it belongs to: the same key under another task is another key.
    scope      TEXT NOT NULL,
    job        BLOB NOT NULL,
    expires_at INTEGER,
    -- Of an idempotency key: what the arguments of its job come to, sealed if they are.
    digest     BLOB,
    PRIMARY KEY (kind, key, scope)
) STRICT, WITHOUT ROWID;
-- Only idempotency keys expire; business keys are not in it.
CREATE INDEX detent_key_expires_at ON detent_key (expires_at) WHERE expires_at IS NOT NULL;
INSERT INTO detent_key (kind, key, scope, job, expires_at)
SELECT held.kind, held.key, job.task, held.job, held.expires_at
FROM detent_key_before AS held
CROSS JOIN detent_job AS job ON job.id = held.job;
DROP TABLE detent_key_before;
