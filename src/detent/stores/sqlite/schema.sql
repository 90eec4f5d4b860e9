-- What all migrations make together, in one piece: to be read, not to be run. It records no steps,
-- so a store would refuse a file made with it. For other tools: detent migrate --sql

-- The core of Detent: jobs, where they are, and who runs them.
--
-- A job's state is the table its row is in. Big values are written once (detent_job,
-- detent_outcome); hot rows (detent_ready, detent_running) are narrow, and are inserted and
-- deleted, never updated. Ids are the 16 bytes of a UUID, times are microseconds since 1970.
-- Rows that stay small are kept in their primary key (WITHOUT ROWID): one tree less to write.

-- Numbers that only grow: one value per claim, which with the job's id and the node's incarnation
-- is its fence, and one per lock that is taken.
CREATE TABLE detent_fence (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO detent_fence (name, value) VALUES ('claim', 0), ('lock', 0);

-- Every job as it was enqueued. Insert-only. The payload stands last, so that reading any other
-- column never has to walk over it.
CREATE TABLE detent_job (
    id              BLOB    NOT NULL PRIMARY KEY,
    task            TEXT    NOT NULL,
    queue           TEXT    NOT NULL,
    lane            TEXT    NOT NULL,
    priority        INTEGER NOT NULL,
    kind            INTEGER NOT NULL DEFAULT 0,
    hooks           INTEGER NOT NULL DEFAULT 0,
    due_at          INTEGER NOT NULL,
    enqueued_at     INTEGER NOT NULL,
    codec           TEXT    NOT NULL,
    tags            TEXT,
    idempotency_key TEXT,
    unique_key      TEXT,
    parent          BLOB,
    retry_of        BLOB,
    principal       TEXT,
    trace           TEXT,
    options         BLOB,
    params          BLOB,
    args            BLOB    NOT NULL
) STRICT;
-- Partial: a job without keys pays nothing for them.
CREATE INDEX detent_job_idempotency_key ON detent_job (idempotency_key, id)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX detent_job_unique_key ON detent_job (unique_key, id) WHERE unique_key IS NOT NULL;

-- The tags of jobs that have some, to find them by.
CREATE TABLE detent_tag (
    tag TEXT NOT NULL,
    id  BLOB NOT NULL,
    PRIMARY KEY (tag, id)
) STRICT, WITHOUT ROWID;

-- Jobs that are due now or later. A lane is a queue and the capabilities its jobs need.
CREATE TABLE detent_ready (
    id         BLOB    NOT NULL PRIMARY KEY,
    due_at     INTEGER NOT NULL,
    attempt    INTEGER NOT NULL DEFAULT 1,
    generation INTEGER NOT NULL DEFAULT 1,
    priority   INTEGER NOT NULL,
    crashes    INTEGER NOT NULL DEFAULT 0,
    hooks      INTEGER NOT NULL DEFAULT 0,
    lane       TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX detent_ready_claim ON detent_ready (lane, priority, due_at, id);

-- Claims. What a release needs to put the job back in its old place is kept here.
CREATE TABLE detent_running (
    id            BLOB    NOT NULL PRIMARY KEY,
    fence         INTEGER NOT NULL,
    node          BLOB    NOT NULL,
    claimed_at    INTEGER NOT NULL,
    due_at        INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    generation    INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    crashes       INTEGER NOT NULL,
    hooks         INTEGER NOT NULL,
    lane          TEXT    NOT NULL,
    resource_gate TEXT,
    task_gate     TEXT,
    queue_gate    TEXT,
    weight        INTEGER
) STRICT, WITHOUT ROWID;

-- Jobs that are not to be claimed: paused, waiting for another job, of a task that no node knows.
CREATE TABLE detent_parked (
    id          BLOB    NOT NULL PRIMARY KEY,
    reason      TEXT    NOT NULL,
    waits_for   BLOB,
    waiting_for INTEGER NOT NULL DEFAULT 0,
    parked_at   INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    crashes     INTEGER NOT NULL,
    hooks       INTEGER NOT NULL,
    lane        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX detent_parked_waits_for ON detent_parked (waits_for) WHERE waits_for IS NOT NULL;
CREATE INDEX detent_parked_unknown_task ON detent_parked (id) WHERE reason = 'unknown_task';

-- How jobs ended. Append-only; only an operator's retry takes a row away.
CREATE TABLE detent_outcome (
    id            BLOB    NOT NULL PRIMARY KEY,
    generation    INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    fence         INTEGER,
    finished_at   INTEGER NOT NULL,
    started_at    INTEGER,
    duration      REAL,
    node          BLOB,
    state         TEXT    NOT NULL,
    task          TEXT    NOT NULL,
    queue         TEXT    NOT NULL,
    reason        TEXT,
    superseded_by BLOB,
    result        BLOB,
    error         BLOB
) STRICT;
-- The dead-letter set and the canceled jobs; successes, the many, are not in it.
CREATE INDEX detent_outcome_state ON detent_outcome (state, finished_at, id)
    WHERE state <> 'succeeded';

-- Ended jobs that had their time and were to be kept: one row for each, as it was enqueued and as it
-- ended. Its tries and log lines are gone.
CREATE TABLE detent_archive (
    id              BLOB    NOT NULL PRIMARY KEY,
    archived_at     INTEGER NOT NULL,
    enqueued_at     INTEGER NOT NULL,
    due_at          INTEGER NOT NULL,
    started_at      INTEGER,
    finished_at     INTEGER NOT NULL,
    fence           INTEGER,
    duration        REAL,
    attempt         INTEGER NOT NULL,
    generation      INTEGER NOT NULL,
    priority        INTEGER NOT NULL,
    kind            INTEGER NOT NULL,
    node            BLOB,
    superseded_by   BLOB,
    parent          BLOB,
    retry_of        BLOB,
    state           TEXT    NOT NULL,
    task            TEXT    NOT NULL,
    queue           TEXT    NOT NULL,
    lane            TEXT    NOT NULL,
    codec           TEXT    NOT NULL,
    idempotency_key TEXT,
    unique_key      TEXT,
    principal       TEXT,
    trace           TEXT,
    reason          TEXT,
    tags            TEXT,
    options         BLOB,
    params          BLOB,
    error           BLOB,
    args            BLOB    NOT NULL,
    result          BLOB
) STRICT;
CREATE INDEX detent_archive_archived_at ON detent_archive (archived_at);

-- Tries that did not succeed, and outcomes that an operator's retry put aside.
CREATE TABLE detent_attempt (
    id         BLOB    NOT NULL,
    generation INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    node       BLOB,
    started_at INTEGER,
    ended_at   INTEGER NOT NULL,
    error      BLOB,
    -- Of a crash: whether no other job can have caused it.
    alone      INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX detent_attempt_id ON detent_attempt (id, ended_at);

-- Idempotency keys (until they expire) and business keys (while their job lives).
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

-- Messages to running jobs. They outlive a claim: whoever runs the job next hears of them.
CREATE TABLE detent_signal (
    id         BLOB    NOT NULL,
    kind       TEXT    NOT NULL,
    reason     TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (id, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE detent_progress (
    id         BLOB    NOT NULL PRIMARY KEY,
    fraction   REAL    NOT NULL,
    message    TEXT,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE detent_log (
    line    INTEGER NOT NULL PRIMARY KEY,
    id      BLOB    NOT NULL,
    at      INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    level   TEXT    NOT NULL,
    message TEXT    NOT NULL
) STRICT;
CREATE INDEX detent_log_id ON detent_log (id, line);

CREATE TABLE detent_queue (
    name      TEXT NOT NULL PRIMARY KEY,
    paused_at INTEGER,
    -- How many jobs of it each node runs at once; NULL leaves it to the node.
    slots     INTEGER,
    -- Whether it has a limit of its own: then its jobs are claimed through its gate only.
    limited   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- One row per start of a node. A lease runs out by the clock of the machine.
CREATE TABLE detent_node (
    incarnation  BLOB    NOT NULL PRIMARY KEY,
    name         TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    lease_until  INTEGER NOT NULL,
    lease        INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    host         TEXT    NOT NULL,
    pid          INTEGER NOT NULL,
    version      TEXT    NOT NULL,
    roles        TEXT    NOT NULL,
    capabilities TEXT    NOT NULL,
    queues       TEXT    NOT NULL,
    load         TEXT    NOT NULL DEFAULT '{}',
    info         TEXT    NOT NULL DEFAULT '{}',
    dead_at      INTEGER,
    death        TEXT,
    -- Since when its heartbeats have had no gap.
    steady_since INTEGER NOT NULL DEFAULT 0,
    -- Whether it had stopped its jobs itself before it was declared dead.
    fenced       INTEGER NOT NULL DEFAULT 0,
    -- What it held when it died (detent.model.rescue); NULL until a rescue has looked.
    autopsy      TEXT
) STRICT, WITHOUT ROWID;

-- Who leads each role. A role whose leader has resigned keeps its row, so that terms only grow.
CREATE TABLE detent_leader (
    role        TEXT    NOT NULL PRIMARY KEY,
    term        INTEGER NOT NULL,
    node        BLOB,
    name        TEXT,
    since       INTEGER NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What the leaders of daemons reported last.
CREATE TABLE detent_daemon (
    name       TEXT    NOT NULL PRIMARY KEY,
    state      TEXT    NOT NULL,
    node       BLOB    NOT NULL,
    node_name  TEXT    NOT NULL,
    term       INTEGER NOT NULL,
    since      INTEGER NOT NULL,
    restarts   INTEGER NOT NULL,
    last_error TEXT,
    failed_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE detent_lock (
    name        TEXT    NOT NULL PRIMARY KEY,
    fence       INTEGER NOT NULL,
    holder      BLOB    NOT NULL,
    owner       TEXT    NOT NULL,
    acquired_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last wake-ups, for the listeners of other processes. AUTOINCREMENT: a number that was seen
-- never comes again, so a listener knows what is new, and whether it has missed something.
CREATE TABLE detent_wake (
    number  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    origin  BLOB,
    payload TEXT NOT NULL
) STRICT;

-- One value per change of any schedule: a revision is never used twice, whatever is deleted.
INSERT INTO detent_fence (name, value) VALUES ('schedule', 0);

-- What fires, and where it stands.
CREATE TABLE detent_schedule (
    name              TEXT    NOT NULL PRIMARY KEY,
    schedule_group    TEXT    NOT NULL,
    owner             TEXT    NOT NULL,
    trigger           BLOB    NOT NULL,
    calendars         TEXT    NOT NULL,
    misfire           TEXT    NOT NULL,
    catch_up_limit    INTEGER NOT NULL,
    misfire_threshold INTEGER NOT NULL,
    overlap           TEXT    NOT NULL,
    jitter            INTEGER NOT NULL,
    start_at          INTEGER,
    end_at            INTEGER,
    max_runs          INTEGER,
    description       TEXT    NOT NULL,
    -- What its jobs are made from.
    task              TEXT    NOT NULL,
    queue             TEXT    NOT NULL,
    lane              TEXT    NOT NULL,
    priority          INTEGER NOT NULL,
    args              BLOB    NOT NULL,
    codec             TEXT    NOT NULL,
    options           BLOB,
    params            BLOB,
    tags              TEXT    NOT NULL,
    principal         TEXT,
    -- Where it stands.
    revision          INTEGER NOT NULL,
    next_fire         INTEGER,
    -- When firers look at it: at its next slot, or later if that could not be fired.
    due_at            INTEGER,
    prev_fire         INTEGER,
    runs              INTEGER NOT NULL,
    paused_at         INTEGER,
    declared_at       INTEGER,
    edited            TEXT    NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    problem           TEXT
) STRICT;
CREATE INDEX detent_schedule_due ON detent_schedule (due_at, priority DESC)
    WHERE due_at IS NOT NULL AND paused_at IS NULL;
CREATE INDEX detent_schedule_group_name ON detent_schedule (schedule_group, name);

-- Groups that are paused: a schedule that joins one later is paused with it.
CREATE TABLE detent_schedule_group (
    name      TEXT    NOT NULL PRIMARY KEY,
    paused_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What became of each slot. The key is the promise: one job per slot.
CREATE TABLE detent_slot (
    schedule TEXT    NOT NULL,
    slot     INTEGER NOT NULL,
    fired_at INTEGER NOT NULL,
    job      BLOB,
    state    TEXT    NOT NULL,
    manual   INTEGER NOT NULL,
    -- Whether its job may still live: 1 until a later firing has seen its end.
    live     INTEGER NOT NULL,
    PRIMARY KEY (schedule, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX detent_slot_live ON detent_slot (schedule, fired_at) WHERE live;
CREATE INDEX detent_slot_fired_at ON detent_slot (fired_at);

-- Times that schedules leave out.
CREATE TABLE detent_calendar (
    name TEXT NOT NULL PRIMARY KEY,
    data BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The outbox: written with the outcome, removed when a sink has it. Ids are never used again: a
-- receiver knows by them what it had before.
CREATE TABLE detent_event (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    sink       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    job        BLOB    NOT NULL,
    task       TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    duration   REAL,
    node       BLOB,
    reason     TEXT,
    alert      INTEGER,
    tries      INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    -- When it may be taken: now, after a pause, or when whoever took it is taken for dead.
    due_at     INTEGER NOT NULL,
    problem    TEXT,
    parked_at  INTEGER,
    error      BLOB
) STRICT;
CREATE INDEX detent_event_due ON detent_event (sink, due_at, id) WHERE parked_at IS NULL;
-- The events of one job go one after the other.
CREATE INDEX detent_event_job ON detent_event (job, id);
CREATE INDEX detent_event_parked ON detent_event (id) WHERE parked_at IS NOT NULL;

-- One row for all failures of one kind in one window of time.
CREATE TABLE detent_alert (
    id           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    task         TEXT    NOT NULL,
    fingerprint  TEXT    NOT NULL,
    window_start INTEGER NOT NULL,
    type         TEXT    NOT NULL,
    message      TEXT    NOT NULL,
    frame        TEXT    NOT NULL,
    first_job    BLOB    NOT NULL,
    last_job     BLOB    NOT NULL,
    first_at     INTEGER NOT NULL,
    last_at      INTEGER NOT NULL,
    count        INTEGER NOT NULL,
    delivered_at INTEGER,
    acked_at     INTEGER,
    acked_by     TEXT,
    -- What became of it, in JSON: [when, what, who, note], in order.
    trail        TEXT    NOT NULL DEFAULT '[]',
    UNIQUE (task, fingerprint, window_start)
) STRICT;
-- How many kinds of failures of a task are in an open window.
CREATE INDEX detent_alert_recent ON detent_alert (task, window_start);

-- One row for each breaker; the body is read and written as a whole.
CREATE TABLE detent_breaker (
    name         TEXT    NOT NULL PRIMARY KEY,
    version      INTEGER NOT NULL,
    phase        TEXT    NOT NULL,
    since        INTEGER,
    half_open_at INTEGER,
    body         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

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
    edited      INTEGER NOT NULL DEFAULT 0,
    -- Whether a job that is put back holds back the later ones.
    ordered     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- The last job that was put back behind an ordered gate. While that job is pending or parked, nothing
-- else passes the gate. When it has ended this means nothing any more.
CREATE TABLE detent_hold (
    gate TEXT NOT NULL PRIMARY KEY,
    job  BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The gates at which a running job counts. Its weight is what it takes of its resource; NULL stands
-- for 1. How much of a limit is used is the sum of what stands here, so nothing can leak.
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

-- Families in the order of a claim. A family is all keys of one task's limit, in one queue and with the
-- same needs, behind no other gate; those of its jobs that are suspects are a family by themselves.
-- Partial, so that only such jobs pay for it.
CREATE INDEX detent_ready_family ON detent_ready (
    substr(lane, 1, instr(lane, '#') - 1) || CASE WHEN substr(lane, -2) = '+!' THEN '+!' ELSE '' END,
    priority, due_at, id
) WHERE instr(lane, '~task:') > 0 AND instr(lane, '#') > 0
    AND instr(substr(lane, instr(lane, '~') + 1), '~') = 0;

-- For the listings.
CREATE VIEW detent_job_now AS
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
    job.options,
    outcome.result,
    outcome.error,
    coalesce(outcome.reason, parked.reason) AS reason,
    outcome.superseded_by,
    job.idempotency_key,
    job.unique_key,
    EXISTS (
        SELECT 1 FROM detent_signal AS signal
        WHERE signal.id = running.id AND signal.kind = 'cancel'
    ) AS cancel_requested,
    progress.fraction AS progress,
    progress.message AS progress_message
FROM detent_job AS job
LEFT JOIN detent_ready AS ready ON ready.id = job.id
LEFT JOIN detent_running AS running ON running.id = job.id
LEFT JOIN detent_parked AS parked ON parked.id = job.id
LEFT JOIN detent_outcome AS outcome ON outcome.id = job.id
LEFT JOIN detent_progress AS progress ON progress.id = running.id;

-- For people with the sqlite3 shell: ids as they are written elsewhere, times that can be read.
CREATE VIEW detent_jobs AS
SELECT
    lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4)
        || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) AS id,
    task,
    queue,
    lane,
    state,
    priority,
    attempt,
    generation,
    crashes,
    strftime('%Y-%m-%d %H:%M:%f', enqueued_at / 1e6, 'unixepoch') AS enqueued_at,
    strftime('%Y-%m-%d %H:%M:%f', due_at / 1e6, 'unixepoch') AS due_at,
    strftime('%Y-%m-%d %H:%M:%f', started_at / 1e6, 'unixepoch') AS started_at,
    strftime('%Y-%m-%d %H:%M:%f', finished_at / 1e6, 'unixepoch') AS finished_at,
    duration,
    lower(hex(node)) AS node,
    fence,
    tags,
    CASE codec WHEN 'json' THEN CAST(args AS TEXT) ELSE quote(args) END AS args,
    CAST(params AS TEXT) AS params,
    CAST(options AS TEXT) AS options,
    CAST(result AS TEXT) AS result,
    CAST(error AS TEXT) AS error,
    reason,
    lower(hex(superseded_by)) AS superseded_by,
    idempotency_key,
    unique_key,
    cancel_requested,
    progress,
    progress_message
FROM detent_job_now;
