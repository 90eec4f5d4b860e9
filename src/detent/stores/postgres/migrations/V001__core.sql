-- The core of Detent: jobs, where they are, and who runs them.
--
-- A job's state is the table its row is in. Big values are written once (detent_job,
-- detent_outcome); hot rows (detent_ready, detent_running) are narrow, and are inserted and
-- deleted, never updated. No foreign keys, and no unique constraint but the id on detent_job and
-- detent_outcome, so that a later migration can attach those two as partitions by id.

-- One value per claim; with the job's id and the node's incarnation it is the fence.
CREATE SEQUENCE detent.detent_fence AS bigint;

-- Every job as it was enqueued. Insert-only, so never bloated.
CREATE TABLE detent.detent_job (
    id              uuid        NOT NULL PRIMARY KEY,
    task            text        NOT NULL,
    queue           text        NOT NULL,
    lane            text        NOT NULL,
    priority        smallint    NOT NULL,
    kind            smallint    NOT NULL DEFAULT 0,
    hooks           smallint    NOT NULL DEFAULT 0,
    due_at          timestamptz NOT NULL,
    enqueued_at     timestamptz NOT NULL,
    args            bytea       NOT NULL,
    codec           text        NOT NULL,
    options         bytea,
    params          bytea,
    tags            text[],
    idempotency_key text,
    unique_key      text,
    parent          uuid,
    retry_of        uuid,
    principal       text,
    trace           text
);
-- Partial: a job without tags pays nothing for them.
CREATE INDEX detent_job_tags ON detent.detent_job USING gin (tags) WHERE tags IS NOT NULL;
CREATE INDEX detent_job_idempotency_key ON detent.detent_job (idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX detent_job_unique_key ON detent.detent_job (unique_key) WHERE unique_key IS NOT NULL;

-- Jobs that are due now or later. A lane is a queue and the capabilities its jobs need.
CREATE TABLE detent.detent_ready (
    id         uuid        NOT NULL,
    due_at     timestamptz NOT NULL,
    attempt    integer     NOT NULL DEFAULT 1,
    generation integer     NOT NULL DEFAULT 1,
    priority   smallint    NOT NULL,
    crashes    smallint    NOT NULL DEFAULT 0,
    hooks      smallint    NOT NULL DEFAULT 0,
    lane       text        NOT NULL
) WITH (
    -- A queue's rows live for moments: vacuum early and without pauses.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX detent_ready_claim ON detent.detent_ready (lane, priority, due_at, id);
-- Made last: while the table is empty both indexes seem equally good for finding an id, and the
-- planner takes the younger. The other would be read from end to end.
ALTER TABLE detent.detent_ready ADD PRIMARY KEY (id);

-- Claims. What a release needs to put the job back in its old place is kept here.
CREATE TABLE detent.detent_running (
    id         uuid        NOT NULL PRIMARY KEY,
    fence      bigint      NOT NULL,
    node       uuid        NOT NULL,
    claimed_at timestamptz NOT NULL,
    due_at     timestamptz NOT NULL,
    attempt    integer     NOT NULL,
    generation integer     NOT NULL,
    priority   smallint    NOT NULL,
    crashes    smallint    NOT NULL,
    hooks      smallint    NOT NULL,
    lane       text        NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);

-- Jobs that are not to be claimed: paused, waiting for another job, of a task that no node knows.
CREATE TABLE detent.detent_parked (
    id          uuid        NOT NULL PRIMARY KEY,
    reason      text        NOT NULL,
    waits_for   uuid,
    waiting_for integer     NOT NULL DEFAULT 0,
    parked_at   timestamptz NOT NULL,
    due_at      timestamptz NOT NULL,
    attempt     integer     NOT NULL,
    generation  integer     NOT NULL,
    priority    smallint    NOT NULL,
    crashes     smallint    NOT NULL,
    hooks       smallint    NOT NULL,
    lane        text        NOT NULL
);
CREATE INDEX detent_parked_waits_for ON detent.detent_parked (waits_for)
    WHERE waits_for IS NOT NULL;
CREATE INDEX detent_parked_unknown_task ON detent.detent_parked (id) WHERE reason = 'unknown_task';

-- How jobs ended. Append-only; only an operator's retry takes a row away.
CREATE TABLE detent.detent_outcome (
    id            uuid        NOT NULL PRIMARY KEY,
    generation    integer     NOT NULL,
    attempt       integer     NOT NULL,
    fence         bigint,
    finished_at   timestamptz NOT NULL,
    started_at    timestamptz,
    duration      real,
    node          uuid,
    state         text        NOT NULL,
    task          text        NOT NULL,
    queue         text        NOT NULL,
    result        bytea,
    error         bytea,
    reason        text,
    superseded_by uuid
);
-- The dead-letter set and the canceled jobs; successes, the many, are not in it.
CREATE INDEX detent_outcome_state ON detent.detent_outcome (state, finished_at, id)
    WHERE state <> 'succeeded';

-- Tries that did not succeed, and outcomes that an operator's retry put aside.
CREATE TABLE detent.detent_attempt (
    id         uuid        NOT NULL,
    generation integer     NOT NULL,
    number     integer     NOT NULL,
    kind       text        NOT NULL,
    node       uuid,
    started_at timestamptz,
    ended_at   timestamptz NOT NULL,
    error      bytea
);
CREATE INDEX detent_attempt_id ON detent.detent_attempt (id, ended_at);

-- Idempotency keys (until they expire) and business keys (while their job lives).
CREATE TABLE detent.detent_key (
    kind       text NOT NULL,
    key        text NOT NULL,
    job        uuid NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (kind, key)
);

-- Messages to running jobs. They outlive a claim: whoever runs the job next hears of them.
CREATE TABLE detent.detent_signal (
    id         uuid        NOT NULL,
    kind       text        NOT NULL,
    reason     text,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (id, kind)
);

CREATE TABLE detent.detent_progress (
    id         uuid        NOT NULL PRIMARY KEY,
    fraction   real        NOT NULL,
    message    text,
    updated_at timestamptz NOT NULL
);

CREATE TABLE detent.detent_log (
    id      uuid        NOT NULL,
    line    bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    at      timestamptz NOT NULL,
    attempt integer     NOT NULL,
    level   text        NOT NULL,
    message text        NOT NULL,
    PRIMARY KEY (id, line)
);

CREATE TABLE detent.detent_queue (
    name      text NOT NULL PRIMARY KEY,
    paused_at timestamptz
);

-- One row per start of a node. A lease runs out by the database's clock.
CREATE TABLE detent.detent_node (
    incarnation  uuid        NOT NULL PRIMARY KEY,
    name         text        NOT NULL,
    state        text        NOT NULL,
    lease_until  timestamptz NOT NULL,
    lease        interval    NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    started_at   timestamptz NOT NULL,
    host         text        NOT NULL,
    pid          integer     NOT NULL,
    version      text        NOT NULL,
    roles        text[]      NOT NULL,
    capabilities text[]      NOT NULL,
    queues       jsonb       NOT NULL,
    load         jsonb       NOT NULL DEFAULT '{}',
    info         jsonb       NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50); -- heartbeats are HOT updates

-- For people with psql, and for the listings.
CREATE VIEW detent.detent_jobs AS
SELECT
    job.id,
    job.task,
    job.queue,
    job.lane,
    CASE
        WHEN outcome.id IS NOT NULL THEN outcome.state
        WHEN running.id IS NOT NULL THEN 'running'
        WHEN ready.id IS NOT NULL THEN 'pending'
        WHEN parked.reason = 'paused' THEN 'paused'
        WHEN parked.id IS NOT NULL THEN 'waiting'
    END AS state,
    coalesce(running.priority, ready.priority, parked.priority, job.priority) AS priority,
    coalesce(outcome.attempt, running.attempt, ready.attempt, parked.attempt) AS attempt,
    coalesce(outcome.generation, running.generation, ready.generation, parked.generation)
        AS generation,
    coalesce(running.crashes, ready.crashes, parked.crashes, 0) AS crashes,
    job.enqueued_at,
    coalesce(running.due_at, ready.due_at, parked.due_at, job.due_at) AS due_at,
    coalesce(outcome.started_at, running.claimed_at) AS started_at,
    outcome.finished_at,
    outcome.duration,
    coalesce(outcome.node, running.node) AS node,
    coalesce(outcome.fence, running.fence) AS fence,
    job.tags,
    job.args,
    job.codec,
    job.params,
    outcome.result,
    outcome.error,
    coalesce(outcome.reason, parked.reason) AS reason,
    outcome.superseded_by,
    job.idempotency_key,
    job.unique_key,
    EXISTS (
        SELECT 1 FROM detent.detent_signal AS signal
        WHERE signal.id = running.id AND signal.kind = 'cancel'
    ) AS cancel_requested,
    progress.fraction AS progress,
    progress.message AS progress_message
FROM detent.detent_job AS job
LEFT JOIN detent.detent_ready AS ready ON ready.id = job.id
LEFT JOIN detent.detent_running AS running ON running.id = job.id
LEFT JOIN detent.detent_parked AS parked ON parked.id = job.id
LEFT JOIN detent.detent_outcome AS outcome ON outcome.id = job.id
LEFT JOIN detent.detent_progress AS progress ON progress.id = running.id;
