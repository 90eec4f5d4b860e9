-- Limits: what may pass which gate, who has passed and still runs, and rates.

-- Whether a queue has a limit of its own: then its jobs are claimed through its gate only.
ALTER TABLE detent_queue ADD COLUMN limited INTEGER NOT NULL DEFAULT 0;

-- What may pass the gates of a name; a name that ends with # stands for those of every key.
CREATE TABLE detent_limit (
    name        TEXT    NOT NULL PRIMARY KEY,
    concurrency INTEGER,
    rate_count  INTEGER,
    rate_per    INTEGER,
    burst       INTEGER,
    algorithm   TEXT,
    -- How many turns the key of a fair share has for each of another.
    weight      INTEGER,
    -- What code says, as JSON; NULL when only an operator made this limit.
    declared    TEXT,
    -- Whether an operator's word holds, and not the code's.
    edited      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- The gates at which a running job counts. Its weight is what it takes of its resource; NULL stands
-- for 1. How much of a limit is used is the sum of what stands here, so nothing can leak.
ALTER TABLE detent_running ADD COLUMN resource_gate TEXT;
ALTER TABLE detent_running ADD COLUMN task_gate TEXT;
ALTER TABLE detent_running ADD COLUMN queue_gate TEXT;
ALTER TABLE detent_running ADD COLUMN weight INTEGER;
-- Partial: a job without limits pays nothing for them.
CREATE INDEX detent_running_resource ON detent_running (resource_gate)
    WHERE resource_gate IS NOT NULL;
CREATE INDEX detent_running_task ON detent_running (task_gate) WHERE task_gate IS NOT NULL;
CREATE INDEX detent_running_queue ON detent_running (queue_gate) WHERE queue_gate IS NOT NULL;

-- The tokens that a rate by bucket has kept, at a moment. No row means a full bucket.
CREATE TABLE detent_bucket (
    gate    TEXT    NOT NULL PRIMARY KEY,
    tokens  REAL    NOT NULL,
    at      INTEGER NOT NULL,
    full_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How many passed when, for rates by window.
CREATE TABLE detent_pass (
    gate   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    number INTEGER NOT NULL,
    until  INTEGER NOT NULL
) STRICT;
CREATE INDEX detent_pass_gate ON detent_pass (gate, at);

-- The lanes that have gates: a walk from one lane to the next skips all jobs in between. Partial,
-- so that a job without limits pays nothing for it.
CREATE INDEX detent_ready_gated ON detent_ready (lane) WHERE instr(lane, '~') > 0;
