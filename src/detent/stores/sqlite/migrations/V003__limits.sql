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

-- The gates at which a running job counts, as JSON: that of its resource, of its task, and of its
-- queue. How much of a limit is used is the sum of what stands here, so nothing can leak. The weights
-- are those of the same places; null stands for 1.
ALTER TABLE detent_running ADD COLUMN weights TEXT;
-- Partial: a job without limits pays nothing for them.
CREATE INDEX detent_running_resource ON detent_running (json_extract(limits, '$[0]'))
    WHERE json_extract(limits, '$[0]') IS NOT NULL;
CREATE INDEX detent_running_task ON detent_running (json_extract(limits, '$[1]'))
    WHERE json_extract(limits, '$[1]') IS NOT NULL;
CREATE INDEX detent_running_queue ON detent_running (json_extract(limits, '$[2]'))
    WHERE json_extract(limits, '$[2]') IS NOT NULL;

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
