-- What all migrations make together, in one piece: to be read, not to be run. It records no steps,
-- so a store would refuse a database made with it. For other tools: detent migrate --sql

-- The core of Detent: jobs, where they are, and who runs them.
--
-- A job's state is the table its row is in. Big values are written once (detent_job,
-- detent_outcome); hot rows (detent_ready, detent_running) are narrow, and are inserted and
-- deleted, never updated. No foreign keys, and no unique constraint but the id on detent_job and
-- detent_outcome, so that a later migration can attach those two as partitions by id.

-- One value per claim; with the job's id and the node's incarnation it is the fence.
CREATE SEQUENCE detent.detent_fence AS bigint;

-- What is added to every number that others may compare, so that it is above all numbers that an
-- earlier primary has given: a lost tail of its history may hold some that were never seen here. The
-- timeline, the first eight digits of the name, is higher after each promotion and each recovery of
-- a backup. Some providers keep their log elsewhere, and have none.
CREATE FUNCTION detent.detent_epoch() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint - 1) << 40;
EXCEPTION WHEN OTHERS THEN
    RETURN 0;
END
$$;

-- One row, which names the transaction that wrote it. In the copy that a dump makes it was written by
-- another: the numbers given since the dump are not known here, and those to come must be above them.
CREATE TABLE detent.detent_history (
    written_by bigint NOT NULL
);
INSERT INTO detent.detent_history (written_by) VALUES (txid_current());

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
    id            uuid        NOT NULL PRIMARY KEY,
    fence         bigint      NOT NULL,
    node          uuid        NOT NULL,
    claimed_at    timestamptz NOT NULL,
    due_at        timestamptz NOT NULL,
    attempt       integer     NOT NULL,
    generation    integer     NOT NULL,
    priority      smallint    NOT NULL,
    crashes       smallint    NOT NULL,
    hooks         smallint    NOT NULL,
    lane          text        NOT NULL,
    resource_gate bigint,
    task_gate     bigint,
    queue_gate    bigint,
    weight        integer
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
-- The same in the order in which people page through them. Said in other words, so that a look by
-- time is never made through this one, however empty both are when it is planned.
CREATE INDEX detent_outcome_others ON detent.detent_outcome (id)
    WHERE state IN ('failed', 'canceled');

-- One row for each job, as it was enqueued and as it ended. Its tries and log lines are gone.
CREATE TABLE detent.detent_archive (
    id              uuid        NOT NULL PRIMARY KEY,
    archived_at     timestamptz NOT NULL,
    enqueued_at     timestamptz NOT NULL,
    due_at          timestamptz NOT NULL,
    started_at      timestamptz,
    finished_at     timestamptz NOT NULL,
    fence           bigint,
    duration        real,
    attempt         integer     NOT NULL,
    generation      integer     NOT NULL,
    priority        smallint    NOT NULL,
    kind            smallint    NOT NULL,
    node            uuid,
    superseded_by   uuid,
    parent          uuid,
    retry_of        uuid,
    state           text        NOT NULL,
    task            text        NOT NULL,
    queue           text        NOT NULL,
    lane            text        NOT NULL,
    codec           text        NOT NULL,
    idempotency_key text,
    unique_key      text,
    principal       text,
    trace           text,
    reason          text,
    tags            text[],
    args            bytea       NOT NULL,
    options         bytea,
    params          bytea,
    result          bytea,
    error           bytea
);
CREATE INDEX detent_archive_archived_at ON detent.detent_archive (archived_at);

-- Tries that did not succeed, and outcomes that an operator's retry put aside.
CREATE TABLE detent.detent_attempt (
    id         uuid        NOT NULL,
    generation integer     NOT NULL,
    number     integer     NOT NULL,
    kind       text        NOT NULL,
    node       uuid,
    started_at timestamptz,
    ended_at   timestamptz NOT NULL,
    error      bytea,
    -- Of a crash: whether no other job can have caused it.
    alone      boolean     NOT NULL DEFAULT false
);
CREATE INDEX detent_attempt_id ON detent.detent_attempt (id, ended_at);

-- Idempotency keys (until they expire) and business keys (while their job lives).
CREATE TABLE detent.detent_key (
    kind       text NOT NULL,
    key        text NOT NULL,
    job        uuid NOT NULL,
    expires_at timestamptz,
    -- The task that it belongs to: the same key under another task is another key.
    scope      text NOT NULL,
    -- Of an idempotency key: what the arguments of its job come to, sealed if they are.
    digest     bytea
);
-- Only idempotency keys expire; business keys are not in it.
CREATE INDEX detent_key_expires_at ON detent.detent_key (expires_at) WHERE expires_at IS NOT NULL;
ALTER TABLE detent.detent_key ADD PRIMARY KEY (kind, key, scope);

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
    paused_at timestamptz,
    -- How many of its jobs each node runs at once; NULL leaves it to the node.
    slots     integer,
    -- Whether it has a limit of its own: then its jobs are claimed through its gate only.
    limited   boolean NOT NULL DEFAULT false
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
    info         jsonb       NOT NULL DEFAULT '{}',
    dead_at      timestamptz,
    death        text,
    -- Since when its heartbeats have had no gap.
    steady_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Whether it had stopped its jobs itself before it was declared dead.
    fenced       boolean     NOT NULL DEFAULT false,
    -- When the last of its claims was ended, once it is dead.
    rescued_at   timestamptz,
    -- What it held when it died (detent.model.rescue); NULL until a rescue has looked.
    autopsy      text
) WITH (fillfactor = 50); -- heartbeats are HOT updates

-- Who leads a role. The row stays when nobody does: a term never begins anew.
CREATE TABLE detent.detent_leader (
    role        text        NOT NULL PRIMARY KEY,
    term        bigint      NOT NULL,
    node        uuid,
    name        text,
    since       timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    lease       interval    NOT NULL,
    -- The server process that holds the advisory lock for this leader; NULL: only the lease counts.
    backend     integer,
    -- When the server was started on which the leader was confirmed last: a lock that is free says
    -- nothing about a leader that another server has known.
    server      timestamptz,
    -- Makes the term part of a key, so that a new term waits for those who hold the row FOR KEY
    -- SHARE (the transactions fenced by the old one), and a renewal of the lease does not.
    UNIQUE (role, term)
) WITH (fillfactor = 50); -- renewals are HOT updates

-- The last report on each daemon, by the node that led it.
CREATE TABLE detent.detent_daemon (
    name       text        NOT NULL PRIMARY KEY,
    state      text        NOT NULL,
    node       uuid        NOT NULL,
    node_name  text        NOT NULL,
    term       bigint      NOT NULL,
    since      timestamptz NOT NULL,
    restarts   integer     NOT NULL,
    last_error text,
    failed_at  timestamptz
);

-- One value per acquisition of any lock: so a lock can be forgotten, and its fences still grow.
CREATE SEQUENCE detent.detent_lock_fence AS bigint;

-- Locks that are held, or were not given back.
CREATE TABLE detent.detent_lock (
    name        text        NOT NULL PRIMARY KEY,
    fence       bigint      NOT NULL,
    holder      uuid        NOT NULL,
    owner       text        NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
) WITH (fillfactor = 50); -- renewals are HOT updates

-- One value per change of any schedule: a revision is never used twice, whatever is deleted.
CREATE SEQUENCE detent.detent_schedule_revision AS bigint;

-- What fires, and where it stands. Names sort by their bytes, in every store alike.
CREATE TABLE detent.detent_schedule (
    name              text COLLATE "C" NOT NULL,
    schedule_group    text COLLATE "C" NOT NULL,
    owner             text        NOT NULL,
    trigger           bytea       NOT NULL,
    calendars         text[]      NOT NULL,
    misfire           text        NOT NULL,
    catch_up_limit    integer     NOT NULL,
    misfire_threshold interval    NOT NULL,
    overlap           text        NOT NULL,
    jitter            interval    NOT NULL,
    start_at          timestamptz,
    end_at            timestamptz,
    max_runs          integer,
    description       text        NOT NULL,
    -- What its jobs are made from.
    task              text        NOT NULL,
    queue             text        NOT NULL,
    lane              text        NOT NULL,
    priority          smallint    NOT NULL,
    args              bytea       NOT NULL,
    codec             text        NOT NULL,
    options           bytea,
    params            bytea,
    tags              text[]      NOT NULL,
    principal         text,
    -- Where it stands.
    revision          bigint      NOT NULL,
    next_fire         timestamptz,
    -- When firers look at it: at its next slot, or later if that could not be fired.
    due_at            timestamptz,
    prev_fire         timestamptz,
    runs              bigint      NOT NULL,
    paused_at         timestamptz,
    declared_at       timestamptz,
    edited            text[]      NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    problem           text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX detent_schedule_due ON detent.detent_schedule (due_at, priority DESC)
    WHERE due_at IS NOT NULL AND paused_at IS NULL;
CREATE INDEX detent_schedule_group_name ON detent.detent_schedule (schedule_group, name);
-- Made last: see detent_ready.
ALTER TABLE detent.detent_schedule ADD PRIMARY KEY (name);

-- Groups that are paused: a schedule that joins one later is paused with it.
CREATE TABLE detent.detent_schedule_group (
    name      text COLLATE "C" NOT NULL PRIMARY KEY,
    paused_at timestamptz NOT NULL
);

-- What became of each slot. The key is the promise: one job per slot.
CREATE TABLE detent.detent_slot (
    schedule text COLLATE "C" NOT NULL,
    slot     timestamptz NOT NULL,
    fired_at timestamptz NOT NULL,
    job      uuid,
    state    text        NOT NULL,
    manual   boolean     NOT NULL,
    -- Whether its job may still live: true until a later firing has seen its end.
    live     boolean     NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX detent_slot_live ON detent.detent_slot (schedule, fired_at) WHERE live;
CREATE INDEX detent_slot_fired_at ON detent.detent_slot (fired_at);
ALTER TABLE detent.detent_slot ADD PRIMARY KEY (schedule, slot);

-- Times that schedules leave out.
CREATE TABLE detent.detent_calendar (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    data bytea NOT NULL
);

-- The outbox: written with the outcome, removed when a sink has it.
CREATE TABLE detent.detent_event (
    id         bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    sink       text        NOT NULL,
    kind       text        NOT NULL,
    job        uuid        NOT NULL,
    task       text        NOT NULL,
    queue      text        NOT NULL,
    generation integer     NOT NULL,
    attempt    integer     NOT NULL,
    at         timestamptz NOT NULL,
    duration   real,
    node       uuid,
    reason     text,
    error      bytea,
    alert      bigint,
    tries      integer     NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    -- When it may be taken: now, after a pause, or when whoever took it is taken for dead.
    due_at     timestamptz NOT NULL,
    problem    text,
    parked_at  timestamptz
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_cost_delay = 0
);
-- The events of one job go one after the other.
CREATE INDEX detent_event_job ON detent.detent_event (job, id);
CREATE INDEX detent_event_parked ON detent.detent_event (id) WHERE parked_at IS NOT NULL;
-- Made last, and the primary key after it: see detent_ready.
CREATE INDEX detent_event_due ON detent.detent_event (sink, due_at, id) WHERE parked_at IS NULL;
ALTER TABLE detent.detent_event ADD PRIMARY KEY (id);

-- One row for all failures of one kind in one window of time.
CREATE TABLE detent.detent_alert (
    id           bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task         text        NOT NULL,
    fingerprint  text        NOT NULL,
    window_start timestamptz NOT NULL,
    type         text        NOT NULL,
    message      text        NOT NULL,
    frame        text        NOT NULL,
    first_job    uuid        NOT NULL,
    last_job     uuid        NOT NULL,
    first_at     timestamptz NOT NULL,
    last_at      timestamptz NOT NULL,
    count        bigint      NOT NULL,
    delivered_at timestamptz,
    acked_at     timestamptz,
    acked_by     text,
    -- What became of it: [seconds since 1970, what, who, note], in order.
    trail        jsonb       NOT NULL DEFAULT '[]',
    UNIQUE (task, fingerprint, window_start)
) WITH (fillfactor = 50); -- counting is a HOT update
-- How many kinds of failures of a task are in an open window.
CREATE INDEX detent_alert_recent ON detent.detent_alert (task, window_start);

-- One row for each breaker. Names sort by their bytes, in every store alike.
CREATE TABLE detent.detent_breaker (
    name         text COLLATE "C" NOT NULL PRIMARY KEY,
    version      bigint           NOT NULL,
    phase        text             NOT NULL,
    since        timestamptz,
    half_open_at timestamptz,
    -- The calls that are remembered, the trials that run: read and written as a whole.
    body         text             NOT NULL
) WITH (fillfactor = 50); -- counting is a HOT update

-- What may pass the gates of a name; a name that ends with # stands for those of every key.
CREATE TABLE detent.detent_limit (
    name        text    NOT NULL PRIMARY KEY,
    concurrency integer,
    rate_count  integer,
    rate_per    float8,
    burst       integer,
    algorithm   text,
    -- How many turns the key of a fair share has for each of another.
    weight      integer,
    -- What code says, as JSON; NULL when only an operator made this limit.
    declared    text,
    -- Whether an operator's word holds, and not the code's.
    edited      boolean NOT NULL DEFAULT false,
    -- Whether a job that is put back holds back the later ones.
    ordered     boolean NOT NULL DEFAULT false
);

-- The last job that was put back behind an ordered gate, by the number of its lock. While that job is
-- pending or parked, nothing else passes the gate. When it has ended this means nothing any more.
CREATE TABLE detent.detent_hold (
    gate bigint NOT NULL PRIMARY KEY,
    job  uuid   NOT NULL
);

-- The gates at which a running job counts, by the numbers of their locks: an index of numbers is
-- cheap to keep, and the names are in the lane. Its weight is what it takes of its resource; NULL
-- stands for 1. How much of a limit is used is the sum of what stands here, so nothing can leak.
-- Partial: a job without limits pays nothing for them.
CREATE INDEX detent_running_resource ON detent.detent_running (resource_gate, fence)
    WHERE resource_gate IS NOT NULL;
CREATE INDEX detent_running_task ON detent.detent_running (task_gate, fence)
    WHERE task_gate IS NOT NULL;
CREATE INDEX detent_running_queue ON detent.detent_running (queue_gate, fence)
    WHERE queue_gate IS NOT NULL;

-- The same as rows, with the place of each kind of gate.
CREATE VIEW detent.detent_held AS
SELECT 1 AS place, resource_gate AS gate, coalesce(weight, 1) AS weight, fence
FROM detent.detent_running
WHERE resource_gate IS NOT NULL
UNION ALL
SELECT 2, task_gate, 1, fence
FROM detent.detent_running
WHERE task_gate IS NOT NULL
UNION ALL
SELECT 3, queue_gate, 1, fence
FROM detent.detent_running
WHERE queue_gate IS NOT NULL;

-- The tokens that a rate by bucket has kept, at a moment. No row means a full bucket.
CREATE TABLE detent.detent_bucket (
    gate    text        NOT NULL PRIMARY KEY,
    tokens  float8      NOT NULL,
    at      timestamptz NOT NULL,
    full_at timestamptz NOT NULL
) WITH (fillfactor = 50); -- every use is a HOT update

-- How many passed when, for rates by window.
CREATE TABLE detent.detent_pass (
    gate   text        NOT NULL,
    at     timestamptz NOT NULL,
    number integer     NOT NULL,
    until  timestamptz NOT NULL
);
CREATE INDEX detent_pass_gate ON detent.detent_pass (gate, at);

-- The lanes that have gates, by their bytes: a walk from one lane to the next skips all jobs in
-- between. Partial, so that a job without limits pays nothing for it.
CREATE INDEX detent_ready_gated ON detent.detent_ready (lane COLLATE "C")
    WHERE strpos(lane, '~') > 0;

-- The lanes that ask for capabilities, in the same way.
CREATE INDEX detent_ready_needy ON detent.detent_ready (lane COLLATE "C")
    WHERE strpos(lane, '+') > 0 AND strpos(lane, '~') = 0;

-- Families in the order of a claim. A family is all keys of one task's limit, in one queue and with the
-- same needs, behind no other gate; those of its jobs that are suspects are a family by themselves.
-- Partial, so that only such jobs pay for it.
CREATE INDEX detent_ready_family ON detent.detent_ready (
    (split_part(lane, '#', 1) || CASE WHEN right(lane, 2) = '+!' THEN '+!' ELSE '' END),
    priority, due_at, id
) WHERE split_part(lane, '~', 2) LIKE 'task:%#%' AND split_part(lane, '~', 3) = '';

-- How many may pass a rate now; below one: none.
CREATE FUNCTION detent.detent_rate_left(
    gate_ text, count_ integer, per_ float8, burst_ integer, algorithm_ text, now_ timestamptz
) RETURNS float8 LANGUAGE plpgsql AS $$
BEGIN
    IF algorithm_ = 'window' THEN
        RETURN count_ - coalesce((
            SELECT sum(pass.number) FROM detent.detent_pass AS pass
            WHERE pass.gate = gate_ AND pass.at > now_ - per_ * interval '1 second'
        ), 0);
    END IF;
    RETURN coalesce((
        SELECT least(
            bucket.tokens
                + greatest(date_part('epoch', now_ - bucket.at), 0) * count_ / per_,
            burst_
        )
        FROM detent.detent_bucket AS bucket WHERE bucket.gate = gate_
    ), burst_);
END $$;

-- The seconds until so many may pass a rate, of which `left_` are left now.
CREATE FUNCTION detent.detent_rate_wait(
    gate_ text, count_ integer, per_ float8, burst_ integer, algorithm_ text, now_ timestamptz,
    left_ float8, wanted_ integer
) RETURNS float8 LANGUAGE plpgsql AS $$
BEGIN
    IF algorithm_ = 'window' THEN
        RETURN coalesce((
            SELECT greatest(date_part('epoch', min(freed.at) - now_) + per_, 0)
            FROM (
                SELECT pass.at, sum(pass.number) OVER (ORDER BY pass.at) AS number
                FROM detent.detent_pass AS pass
                WHERE pass.gate = gate_ AND pass.at > now_ - per_ * interval '1 second'
            ) AS freed
            WHERE left_ + freed.number >= wanted_
        ), per_);
    END IF;
    -- Who waits comes back for several tokens, unless they take longer than 50 ms to flow in.
    RETURN greatest(
        greatest(wanted_, least(burst_ / 2, floor(count_ / per_ * 0.05))) - left_, 0
    ) * per_ / count_;
END $$;

-- Note that so many have passed a rate. Whoever calls it holds the lock of the gate.
CREATE FUNCTION detent.detent_rate_use(
    gate_ text, count_ integer, per_ float8, burst_ integer, algorithm_ text, now_ timestamptz,
    left_ float8, used_ integer
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF algorithm_ = 'window' THEN
        DELETE FROM detent.detent_pass AS pass
        WHERE pass.gate = gate_ AND pass.at <= now_ - per_ * interval '1 second';
        INSERT INTO detent.detent_pass (gate, at, number, until)
        VALUES (gate_, now_, used_, now_ + per_ * interval '1 second');
        RETURN;
    END IF;
    INSERT INTO detent.detent_bucket AS bucket (gate, tokens, at, full_at)
    VALUES (
        gate_, left_ - used_, now_,
        now_ + (burst_ - left_ + used_) * per_ / count_ * interval '1 second'
    )
    ON CONFLICT (gate) DO UPDATE
    SET tokens = excluded.tokens, at = excluded.at, full_at = excluded.full_at;
END $$;

-- Answer asks for rates, in order. One call, so that nobody who is stopped half-way keeps a lock.
CREATE FUNCTION detent.detent_take(
    names_ text[], keys_ bigint[], counts_ integer[], pers_ float8[], bursts_ integer[],
    algorithms_ text[], asked_ integer[]
) RETURNS TABLE (granted boolean, remaining integer, retry_after float8) LANGUAGE plpgsql AS $$
DECLARE
    now_  timestamptz;
    left_ float8;
BEGIN
    -- Statements of a function see what was committed before each of them began: what others took
    -- while this one waited for the lock is counted.
    PERFORM pg_advisory_xact_lock(turn.key)
    FROM (SELECT DISTINCT unnest(keys_) AS key ORDER BY 1 OFFSET 0) AS turn;
    now_ := clock_timestamp();
    FOR i IN 1 .. cardinality(names_) LOOP
        left_ := detent.detent_rate_left(
            names_[i], counts_[i], pers_[i], bursts_[i], algorithms_[i], now_);
        granted := left_ + 1e-6 >= asked_[i];
        IF granted THEN
            PERFORM detent.detent_rate_use(names_[i], counts_[i], pers_[i], bursts_[i],
                algorithms_[i], now_, left_, asked_[i]);
            remaining := floor(left_ - asked_[i] + 1e-6);
            retry_after := 0;
        ELSE
            remaining := greatest(floor(left_ + 1e-6), 0);
            retry_after := detent.detent_rate_wait(names_[i], counts_[i], pers_[i], bursts_[i],
                algorithms_[i], now_, left_, asked_[i]);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Wait a moment for a gate that another claim keeps locked; tell whether it is locked for us now.
CREATE FUNCTION detent.detent_wait_for_gate(key_ bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    usual_ text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', '30ms', true);
    PERFORM pg_advisory_xact_lock(key_);
    PERFORM set_config('lock_timeout', usual_, true);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    -- With this block its setting is undone.
    RETURN false;
END
$$;

-- The number under which the jobs of one key take turns and are counted. By the server, since a claim
-- of a family meets thousands of keys.
CREATE FUNCTION detent.detent_gate_number(gate_ text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(('detent.detent_gate ' || gate_) COLLATE "C", 0)
$$;

-- Keep claims of a whole family away while single lanes of it are claimed from, which do not mind each
-- other; tell whether that was possible within a moment. `definition_` is the name of its limit.
CREATE FUNCTION detent.detent_enter_family(definition_ text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    key_   bigint := detent.detent_gate_number(definition_ || '*');
    usual_ text   := current_setting('lock_timeout');
BEGIN
    IF pg_try_advisory_xact_lock_shared(key_) THEN
        RETURN true;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', '30ms', true);
        PERFORM pg_advisory_xact_lock_shared(key_);
        PERFORM set_config('lock_timeout', usual_, true);
        RETURN true;
    EXCEPTION WHEN lock_not_available THEN
        -- With this block its setting is undone.
        RETURN false;
    END;
END
$$;

-- Say how many jobs of each lane may pass its gates, for the statement that then takes them.
-- node_         incarnation
-- lanes_ queues_ rooms_ frees_: one for each lane; of those under a rate at most frees_ may pass
-- least_        the lowest aged priority that may pass, for each lane
-- shares_       the gate of each lane's fair share, or NULL
-- due_at_ ids_  where scans begin, five priorities for each lane, as in claim_jobs
-- lane_gates_   the numbers of the gates of all lanes, lane after lane, with their weights_
-- ends_         for each lane, how many of those there are up to its own
-- gates_ definitions_ keys_ required_ places_ wishes_ floors_ mosts_ sinces_: one for each gate
--     its lock is its key, for a task's key the number that the server knows; its place among the
--     limits of a running job 1 to 3, or 0 for none
--     how much is asked of it in all
--     its floor: no claim with an older fence counts, if server_ is still the same. Fences of one
--     gate only grow, since they are given out under its lock
--     how much was used at most, by claims up to a fence; NULL if nobody has counted
-- many_         of the one lane as many are due as there is room for, for all that is known
CREATE FUNCTION detent.detent_open_gates(
    node_ uuid, lanes_ text[], queues_ text[], rooms_ integer[], frees_ integer[],
    least_ integer[], shares_ text[], due_at_ timestamptz[], ids_ uuid[], lane_gates_ integer[],
    weights_ integer[], ends_ integer[],
    gates_ text[], definitions_ text[], keys_ bigint[], required_ boolean[], places_ integer[],
    wishes_ bigint[], floors_ bigint[], mosts_ bigint[], sinces_ bigint[], server_ float8,
    many_ boolean, limit_ integer, boost_ float8
) RETURNS TABLE (
    number integer, lane text, room integer,
    -- The only job that may be taken, where one at a time may run: they keep their order.
    only_one uuid,
    -- What its running jobs count at, and how much each takes of its resource.
    resource_gate bigint, task_gate bigint, queue_gate bigint, held integer,
    blocked_by text, wait float8, due_in float8, now timestamptz,
    -- What is most urgent of it: its priority, and for how long it has waited.
    priority integer, waited float8,
    -- What the limit of its share says.
    weight integer,
    -- Whether the rest of a gate is kept for it.
    keeps boolean,
    -- The oldest fence that counts at each gate, how much of it is used at most with what is let
    -- in, and since when this server runs.
    floors bigint[], mosts bigint[], server float8
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    gate_      record;
    lane_      record;
    i          integer;
    -- Of each gate, if it has a limit: how much may still pass by number, and by rate.
    limited_   boolean[] := array_fill(false, ARRAY[cardinality(gates_)]);
    -- Whether another claim keeps it locked, and whether none has been waited for in vain.
    busy_      boolean[] := array_fill(false, ARRAY[cardinality(gates_)]);
    patient_   boolean   := true;
    counted_   float8[]  := array_fill(NULL::float8, ARRAY[cardinality(gates_)]);
    rated_     float8[]  := array_fill(NULL::float8, ARRAY[cardinality(gates_)]);
    begun_     float8[]  := array_fill(NULL::float8, ARRAY[cardinality(gates_)]);
    -- And what a job needs for which the rest is kept, or light ones would overtake it for ever.
    kept_      integer[] := array_fill(0, ARRAY[cardinality(gates_)]);
    -- The job that holds an ordered gate, the lane in which it is pending, and when it is due.
    holders_   uuid[]    := array_fill(NULL::uuid, ARRAY[cardinality(gates_)]);
    homes_     text[]    := array_fill(NULL::text, ARRAY[cardinality(gates_)]);
    dues_      timestamptz[] := array_fill(NULL::timestamptz, ARRAY[cardinality(gates_)]);
    holding_   integer;
    rules_     detent.detent_limit[] := array_fill(
        NULL::detent.detent_limit, ARRAY[cardinality(gates_)]);
    rule_      detent.detent_limit;
    first_     integer := 1;
    number_    integer;
    wish_      integer;
    here_      integer;
    narrow_    integer;
    total_     integer := 0;
    definition_ text;
BEGIN
    server := date_part('epoch', pg_postmaster_start_time());
    IF server IS DISTINCT FROM server_ THEN
        -- Another server, or the same after a crash, may give out lower fences than the last one.
        floors_ := array_fill(0::bigint, ARRAY[cardinality(gates_)]);
        mosts_ := array_fill(NULL::bigint, ARRAY[cardinality(gates_)]);
    END IF;
    floors := array_fill(NULL::bigint, ARRAY[cardinality(gates_)]);
    mosts := array_fill(NULL::bigint, ARRAY[cardinality(gates_)]);
    keys_ := ARRAY(
        SELECT CASE WHEN asked.place = 2 AND right(asked.definition, 1) = '#'
            THEN detent.detent_gate_number(asked.gate) ELSE asked.key END
        FROM unnest(gates_, definitions_, keys_, places_) WITH ORDINALITY
            AS asked (gate, definition, key, place, number)
        ORDER BY asked.number
    );
    -- A claim of a family passes any of its keys: until this one has committed there is none.
    FOR definition_ IN
        SELECT DISTINCT asked.definition
        FROM unnest(definitions_, places_) AS asked (definition, place)
        WHERE asked.place = 2 AND right(asked.definition, 1) = '#'
        ORDER BY asked.definition
    LOOP
        IF NOT detent.detent_enter_family(definition_) THEN
            FOR i IN 1 .. cardinality(definitions_) LOOP
                busy_[i] := busy_[i] OR definitions_[i] = definition_;
            END LOOP;
        END IF;
    END LOOP;
    -- Gates are locked in one order by all, and each statement after this sees what was committed
    -- while it waited: so what is counted below is exact. The locks are held until the claim is
    -- committed. All of it is one call from the client, since one that is stopped between two would
    -- keep the gates locked. A gate that another claim keeps locked for longer than a moment counts as
    -- full for a moment: who asks for others, too, must not wait for it.
    FOR gate_ IN
        SELECT asked.number, asked.key
        FROM unnest(definitions_, keys_) WITH ORDINALITY AS asked (definition, key, number)
        WHERE EXISTS (
            SELECT 1 FROM detent.detent_limit AS known WHERE known.name = asked.definition
        )
        ORDER BY asked.key
    LOOP
        limited_[gate_.number] := true;
        IF NOT busy_[gate_.number] AND NOT pg_try_advisory_xact_lock(gate_.key) THEN
            patient_ := patient_ AND detent.detent_wait_for_gate(gate_.key);
            busy_[gate_.number] := NOT patient_;
        END IF;
    END LOOP;
    now := clock_timestamp();
    -- As in claim_jobs: who is dead or out of time cannot claim.
    PERFORM 1 FROM detent.detent_node AS node
    WHERE node.incarnation = node_ AND node.state = 'active' AND node.lease_until > now
    FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- All gates at once: a statement for each would take longer than what it does. Of what was
    -- counted before some may have ended; with those who have come since it is the most that can be
    -- used, and if that leaves room for all that is asked, there is no need to count.
    FOR gate_ IN
        SELECT asked.number, known AS rule, coalesce(bound.most, used.weight) AS used,
            CASE WHEN bound.most IS NULL THEN used.fence ELSE asked.floor END AS floor,
            hold.job AS holder, hold.lane AS home, hold.due_at AS holder_due_at
        FROM unnest(keys_, definitions_, places_, wishes_, floors_, mosts_, sinces_)
            WITH ORDINALITY AS asked (key, definition, place, wish, floor, most, since, number)
        CROSS JOIN LATERAL (
            SELECT * FROM detent.detent_limit AS known WHERE known.name = asked.definition OFFSET 0
        ) AS known
        LEFT JOIN LATERAL (
            SELECT asked.most + coalesce(sum(held.weight), 0) AS most
            FROM detent.detent_held AS held
            WHERE asked.most IS NOT NULL
                AND held.place = asked.place AND held.gate = asked.key AND held.fence > asked.since
        ) AS bound ON bound.most + asked.wish <= known.concurrency
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(held.weight), 0) AS weight, min(held.fence) AS fence
            FROM detent.detent_held AS held
            WHERE bound.most IS NULL
                AND held.place = asked.place AND held.gate = asked.key AND held.fence >= asked.floor
        ) AS used
        LEFT JOIN LATERAL (
            -- By the same snapshot as the count: who is put back gives up its permit and takes this.
            SELECT hold.job, ready.lane, ready.due_at
            FROM detent.detent_hold AS hold
            LEFT JOIN LATERAL (
                SELECT ready.lane, ready.due_at FROM detent.detent_ready AS ready
                WHERE ready.id = hold.job OFFSET 0
            ) AS ready ON true
            LEFT JOIN LATERAL (
                SELECT parked.id FROM detent.detent_parked AS parked
                WHERE parked.id = hold.job OFFSET 0
            ) AS parked ON true
            -- Nothing is read for gates without an order.
            WHERE hold.gate = CASE WHEN known.ordered THEN asked.key END
                AND (ready.lane IS NOT NULL OR parked.id IS NOT NULL)
            OFFSET 0
        ) AS hold ON true
        WHERE limited_[asked.number] AND NOT busy_[asked.number]
    LOOP
        rule_ := gate_.rule;
        rules_[gate_.number] := rule_;
        holders_[gate_.number] := gate_.holder;
        homes_[gate_.number] := gate_.home;
        dues_[gate_.number] := gate_.holder_due_at;
        IF rule_.concurrency IS NOT NULL THEN
            counted_[gate_.number] := rule_.concurrency - gate_.used;
            floors[gate_.number] := gate_.floor;
            mosts[gate_.number] := gate_.used;
        END IF;
        IF rule_.rate_count IS NOT NULL THEN
            rated_[gate_.number] := detent.detent_rate_left(
                gates_[gate_.number], rule_.rate_count, rule_.rate_per,
                coalesce(rule_.burst, rule_.rate_count), rule_.algorithm, now);
            begun_[gate_.number] := rated_[gate_.number];
        END IF;
    END LOOP;
    FOR j IN 1 .. cardinality(lane_gates_) LOOP
        -- Where a gate may be the narrower, what is due is counted.
        number_ := lane_gates_[j];
        many_ := many_ AND rated_[number_] IS NULL
            AND coalesce(counted_[number_] > wishes_[number_], true);
    END LOOP;
    -- And all lanes: how many are due, up to what was asked for, which is the best, and when the next
    -- one is due that is not among them. Of the index alone.
    FOR lane_ IN
        SELECT scan.number,
            CASE WHEN many_ THEN scan.room + 1 ELSE due.count END AS count,
            best.id AS best, best.priority, best.due_at AS best_due_at, next.due_at, next.head,
            (SELECT known.weight FROM detent.detent_limit AS known WHERE known.name = scan.share)
                AS weight,
            EXISTS (
                SELECT 1 FROM detent.detent_queue AS queue
                WHERE queue.name = scan.queue AND queue.paused_at IS NOT NULL
            ) AS paused
        FROM unnest(lanes_, queues_, rooms_, least_, shares_)
            WITH ORDINALITY AS scan (lane, queue, room, least, share, number)
        CROSS JOIN LATERAL (
            SELECT count(*) AS count
            FROM generate_series(0, 4) AS level (priority)
            CROSS JOIN LATERAL (
                SELECT ready.due_at
                FROM detent.detent_ready AS ready
                WHERE ready.lane = scan.lane
                    AND ready.priority = level.priority::smallint
                    AND (ready.due_at, ready.id) >= (
                        least(
                            due_at_[(scan.number - 1) * 5 + level.priority + 1],
                            now - interval '1 second'
                        ),
                        ids_[(scan.number - 1) * 5 + level.priority + 1]
                    )
                    AND ready.due_at <= now
                ORDER BY ready.due_at, ready.id
                -- And one more, to know whether any is left.
                LIMIT CASE WHEN many_ THEN 0 ELSE scan.room + 1 END
            ) AS head
            WHERE level.priority + CASE WHEN boost_ > 0 THEN
                floor(date_part('epoch', now - head.due_at) / boost_) ELSE 0 END >= scan.least
        ) AS due
        LEFT JOIN LATERAL (
            SELECT head.id, level.priority, head.due_at
            FROM generate_series(0, 4) AS level (priority)
            CROSS JOIN LATERAL (
                SELECT ready.due_at, ready.id
                FROM detent.detent_ready AS ready
                WHERE ready.lane = scan.lane
                    AND ready.priority = level.priority::smallint
                    AND (ready.due_at, ready.id) >= (
                        least(
                            due_at_[(scan.number - 1) * 5 + level.priority + 1],
                            now - interval '1 second'
                        ),
                        ids_[(scan.number - 1) * 5 + level.priority + 1]
                    )
                    AND ready.due_at <= now
                ORDER BY ready.due_at, ready.id
                -- Of many the last one that is taken tells how urgent the rest is.
                LIMIT CASE WHEN many_ THEN 0 ELSE 1 END
            ) AS head
            ORDER BY
                level.priority + CASE WHEN boost_ > 0 THEN
                    floor(date_part('epoch', now - head.due_at) / boost_) ELSE 0 END DESC,
                head.due_at,
                head.id
            LIMIT 1
        ) AS best ON true
        LEFT JOIN LATERAL (
            SELECT min(head.due_at) AS due_at,
                -- Of those that are due the one with the highest aged priority, then the oldest.
                max(ARRAY[
                    level.priority + CASE WHEN boost_ > 0 THEN floor(head.waited / boost_) ELSE 0 END,
                    head.waited, level.priority
                ]) FILTER (WHERE head.waited >= 0) AS head
            -- None of these where it is known that more are due.
            FROM generate_series(
                0, CASE WHEN due.count <= scan.room AND NOT many_ THEN 4 ELSE -1 END
            ) AS level (priority)
            CROSS JOIN LATERAL (
                SELECT ready.due_at, date_part('epoch', now - ready.due_at) AS waited
                FROM detent.detent_ready AS ready
                WHERE ready.lane = scan.lane
                    AND ready.priority = level.priority::smallint
                    -- Behind what has aged enough, and behind dead rows; as one bound, since of two
                    -- the index may choose the one that lets it walk over the whole lane.
                    AND ready.due_at >= greatest(
                        interval '1 microsecond' + CASE
                            WHEN level.priority >= scan.least THEN now
                            WHEN boost_ > 0 THEN
                                now - (scan.least - level.priority) * boost_ * interval '1 second'
                            ELSE '-infinity' END,
                        least(
                            due_at_[(scan.number - 1) * 5 + level.priority + 1],
                            now - interval '1 second'
                        )
                    )
                ORDER BY ready.due_at, ready.id
                LIMIT 1
            ) AS head
        ) AS next ON true
        ORDER BY scan.number
    LOOP
        i := lane_.number;
        number := i;
        lane := lanes_[i];
        wish_ := least(rooms_[i], limit_ - total_);
        room := wish_;
        narrow_ := NULL;
        only_one := NULL;
        wait := NULL;
        resource_gate := NULL;
        task_gate := NULL;
        queue_gate := NULL;
        held := NULL;
        blocked_by := NULL;
        keeps := false;
        holding_ := NULL;
        weight := lane_.weight;
        IF lane_.paused THEN
            room := 0;
            -- Nothing is kept for it either.
            wish_ := 0;
            -- Its last gate is that of its queue.
            narrow_ := ends_[i];
        END IF;
        FOR j IN first_ .. ends_[i] LOOP
            number_ := lane_gates_[j];
            IF busy_[number_] THEN
                room := 0;
                narrow_ := j;
                CONTINUE;
            END IF;
            IF NOT limited_[number_] THEN
                -- A limit that nobody has declared must not be exceeded either.
                IF required_[number_] THEN
                    room := 0;
                    narrow_ := j;
                END IF;
                CONTINUE;
            END IF;
            IF counted_[number_] IS NOT NULL THEN
                CASE places_[number_]
                    WHEN 1 THEN
                        resource_gate := keys_[number_];
                        held := nullif(weights_[j], 1);
                    WHEN 2 THEN
                        task_gate := keys_[number_];
                    WHEN 3 THEN
                        queue_gate := keys_[number_];
                    ELSE
                        NULL;
                END CASE;
            END IF;
            IF rated_[number_] IS NOT NULL THEN
                wish_ := least(wish_, frees_[i]);
                room := least(room, wish_);
            END IF;
            here_ := CASE WHEN kept_[number_] > 0 THEN 0 ELSE greatest(floor(
                (least(counted_[number_], rated_[number_]) + 1e-6) / weights_[j]
            ), 0) END;
            -- Also one that will be full by this: nobody need ask to hear so.
            IF here_ <= room THEN
                room := here_;
                narrow_ := j;
            END IF;
            IF holders_[number_] IS NOT NULL THEN
                holding_ := j;
            END IF;
        END LOOP;
        IF holding_ IS NOT NULL THEN
            number_ := lane_gates_[holding_];
            IF homes_[number_] = lane AND dues_[number_] <= now THEN
                -- It goes first, however urgent others are. They are due when it is taken.
                lane_.best := holders_[number_];
                lane_.count := lane_.count + 1;
            ELSE
                room := 0;
                narrow_ := holding_;
            END IF;
        END IF;
        here_ := least(lane_.count, greatest(room, 1));
        only_one := CASE WHEN room = 1 AND lane_.count > 0 THEN lane_.best END;
        -- What is left when these are taken is due now, unless all that are due are among them.
        due_in := CASE WHEN lane_.count > room THEN 0
            ELSE date_part('epoch', lane_.due_at - now) END;
        IF lane_.count > room THEN
            priority := lane_.priority;
            waited := date_part('epoch', now - lane_.best_due_at);
        ELSE
            priority := lane_.head[3];
            waited := lane_.head[2];
        END IF;
        IF narrow_ IS NOT NULL AND here_ >= room THEN
            number_ := lane_gates_[narrow_];
            blocked_by := gates_[number_];
        END IF;
        room := least(room, here_);
        total_ := total_ + room;
        FOR j IN first_ .. ends_[i] LOOP
            number_ := lane_gates_[j];
            counted_[number_] := counted_[number_] - weights_[j] * room;
            mosts[number_] := mosts[number_] + weights_[j] * room;
            rated_[number_] := rated_[number_] - weights_[j] * room;
        END LOOP;
        IF blocked_by IS NOT NULL THEN
            number_ := lane_gates_[narrow_];
            rule_ := rules_[number_];
            keeps := weights_[narrow_] > 1 AND room = 0 AND wish_ > 0 AND lane_.count > 0
                AND limited_[number_] AND NOT busy_[number_]
                AND coalesce(weights_[narrow_] <= rule_.concurrency, true)
                AND coalesce(
                    weights_[narrow_] <= coalesce(rule_.burst, rule_.rate_count), true);
            kept_[number_] := greatest(
                kept_[number_], CASE WHEN keeps THEN weights_[narrow_] ELSE 0 END);
            here_ := greatest(weights_[narrow_], kept_[number_]);
            IF rated_[number_] + 1e-6 < here_
                AND coalesce(counted_[number_], here_) >= here_
            THEN
                wait := detent.detent_rate_wait(gates_[number_], rule_.rate_count,
                    rule_.rate_per, coalesce(rule_.burst, rule_.rate_count), rule_.algorithm, now,
                    rated_[number_], here_);
            END IF;
            IF busy_[number_] THEN
                wait := 0.05 * (1 + random());
            ELSIF narrow_ = holding_ AND dues_[number_] > now THEN
                wait := date_part('epoch', dues_[number_] - now);
            END IF;
        END IF;
        first_ := ends_[i] + 1;
        RETURN NEXT;
    END LOOP;
    FOR i IN 1 .. cardinality(gates_) LOOP
        IF rated_[i] < begun_[i] THEN
            rule_ := rules_[i];
            PERFORM detent.detent_rate_use(gates_[i], rule_.rate_count, rule_.rate_per,
                coalesce(rule_.burst, rule_.rate_count), rule_.algorithm, now, begun_[i],
                (begun_[i] - rated_[i])::integer);
        END IF;
    END LOOP;
END $$;

-- Move the best due jobs of a family to running, of each key no more than its limit lets in.
-- node_    incarnation
-- family_  the lane of each of them, up to its key
-- room_ walk_ least_: how many at most, how many to look at, and the lowest aged priority
-- due_at_ ids_: where scans begin, by priority, as in claim_jobs
-- without_ lanes that are claimed from by themselves
-- All rows but the last are claims. The last has no id, and as args JSON: why nothing was claimed or
-- NULL; how many due jobs were seen, and how many of those their keys keep out; the priority of the
-- most urgent that was left, for how long it has waited; seconds until the next is due, if all that are
-- due were seen; how many keys were seen; where the next scan begins, by priority; lanes of which many
-- jobs are kept out.
CREATE FUNCTION detent.detent_claim_family(
    node_ uuid, family_ text, queue_ text, room_ integer, walk_ integer, least_ integer,
    due_at_ timestamptz[], ids_ uuid[], without_ text[], boost_ float8, inline_ integer
) RETURNS TABLE (
    id uuid, fence bigint, task text, lane text, priority smallint, due_at timestamptz,
    attempt integer, crashes smallint, generation integer, hooks smallint, args bytea, codec text,
    options bytea, params bytea, tags text[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    definition_ text := split_part(family_, '~', 2) || '#';
    key_        bigint := detent.detent_gate_number(split_part(family_, '~', 2) || '#*');
    at_         integer := strpos(family_, '~') + 1;
    now_        timestamptz;
    rule_       detent.detent_limit;
    why_        text;
BEGIN
    -- As in detent_open_gates: what is counted after this is exact, and nobody waits for long.
    IF NOT pg_try_advisory_xact_lock(key_) AND NOT detent.detent_wait_for_gate(key_) THEN
        why_ := 'busy';
    END IF;
    now_ := clock_timestamp();
    PERFORM 1 FROM detent.detent_node AS node
    WHERE node.incarnation = node_ AND node.state = 'active' AND node.lease_until > now_
    FOR KEY SHARE;
    IF NOT FOUND THEN
        why_ := 'dead';
    END IF;
    SELECT * INTO rule_ FROM detent.detent_limit AS known WHERE known.name = definition_;
    IF why_ IS NULL AND (rule_.concurrency IS NULL OR rule_.rate_count IS NOT NULL) THEN
        why_ := 'refused';
    END IF;
    IF why_ IS NULL THEN
        SELECT CASE WHEN queue.limited THEN 'refused' WHEN queue.paused_at IS NOT NULL THEN 'paused' END
        INTO why_
        FROM detent.detent_queue AS queue WHERE queue.name = queue_;
    END IF;
    IF why_ IS NOT NULL THEN
        args := convert_to(json_build_array(why_)::text, 'UTF8');
        RETURN NEXT;
        RETURN;
    END IF;
    RETURN QUERY
    WITH heads AS MATERIALIZED (
        -- The first of each priority, merged: as far as this goes, nothing comes before any of them.
        SELECT head.row, head.id, head.lane, head.due_at, level.priority, head.age,
            detent.detent_gate_number(substr(head.lane, at_)) AS gate
        FROM generate_series(0, 4) AS level (priority)
        CROSS JOIN LATERAL (
            SELECT ready.ctid AS row, ready.id, ready.lane, ready.due_at,
                level.priority + CASE WHEN boost_ > 0 THEN
                    floor(date_part('epoch', now_ - ready.due_at) / boost_) ELSE 0 END AS age
            FROM detent.detent_ready AS ready
            WHERE split_part(ready.lane, '#', 1)
                    || CASE WHEN right(ready.lane, 2) = '+!' THEN '+!' ELSE '' END = family_
                AND split_part(ready.lane, '~', 2) LIKE 'task:%#%'
                AND split_part(ready.lane, '~', 3) = ''
                AND ready.priority = level.priority::smallint
                AND (ready.due_at, ready.id) >= (
                    least(due_at_[level.priority + 1], now_ - interval '1 second'),
                    ids_[level.priority + 1]
                )
                AND ready.due_at <= now_
            ORDER BY ready.due_at, ready.id
            LIMIT walk_
        ) AS head
        ORDER BY head.age DESC, head.due_at, head.id
        LIMIT walk_
    ), ranked AS (
        SELECT heads.*, row_number() OVER (
            PARTITION BY heads.gate ORDER BY heads.age DESC, heads.due_at, heads.id
        ) AS rank
        FROM heads
        WHERE heads.lane <> ALL (without_)
    ), judged AS MATERIALIZED (
        -- By one snapshot: who is put back gives up its permit and takes the hold.
        SELECT ranked.lane, ranked.id, ranked.due_at, ranked.priority, ranked.age, ranked.rank,
            coalesce(hold.row, ranked.row) AS row,
            ranked.rank <= rule_.concurrency - used.count AND coalesce(hold.may, true) AS may
        FROM ranked
        CROSS JOIN LATERAL (
            SELECT count(*) AS count
            FROM (
                SELECT 1 FROM detent.detent_running AS running
                WHERE running.task_gate = ranked.gate AND ranked.rank <= rule_.concurrency
                -- So that it is read through its index, whatever the plan was made for.
                ORDER BY running.fence
                LIMIT rule_.concurrency
            ) AS running
        ) AS used
        LEFT JOIN LATERAL (
            -- The job that was put back goes first, however urgent others are; unless it stands
            -- elsewhere, or is not due. Nothing is read for gates without an order.
            SELECT ready.row,
                coalesce(ready.lane = ranked.lane AND ready.due_at <= now_, false) AS may
            FROM detent.detent_hold AS hold
            LEFT JOIN LATERAL (
                SELECT ready.ctid AS row, ready.lane, ready.due_at
                FROM detent.detent_ready AS ready
                WHERE ready.id = hold.job OFFSET 0
            ) AS ready ON true
            LEFT JOIN LATERAL (
                SELECT parked.id FROM detent.detent_parked AS parked
                WHERE parked.id = hold.job OFFSET 0
            ) AS parked ON true
            WHERE rule_.ordered AND ranked.rank = 1 AND hold.gate = ranked.gate
                AND (ready.lane IS NOT NULL OR parked.id IS NOT NULL)
            OFFSET 0
        ) AS hold ON true
    ), picked AS MATERIALIZED (
        SELECT judged.row FROM judged
        WHERE judged.may AND judged.age >= least_
        ORDER BY judged.age DESC, judged.due_at, judged.id
        LIMIT room_
    ), taken AS (
        -- Of what somebody has locked nothing else of the same key takes the place.
        DELETE FROM detent.detent_ready AS ready
        WHERE ready.ctid = ANY (ARRAY(
            SELECT ready.ctid FROM detent.detent_ready AS ready
            WHERE ready.ctid = ANY (ARRAY(SELECT picked.row FROM picked))
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING ready.id, ready.due_at, ready.attempt, ready.generation, ready.priority,
            ready.crashes, ready.hooks, ready.lane
    ), claimed AS (
        INSERT INTO detent.detent_running AS running (
            id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes, hooks,
            lane, task_gate
        )
        SELECT taken.id, (SELECT detent.detent_epoch() + nextval('detent.detent_fence')), node_,
            now_, taken.due_at, taken.attempt, taken.generation, taken.priority, taken.crashes,
            taken.hooks | 2::smallint, taken.lane,
            detent.detent_gate_number(substr(taken.lane, at_))
        FROM taken
        RETURNING running.id, running.fence, running.due_at, running.attempt, running.generation,
            running.priority, running.crashes, running.hooks, running.lane
    ), best AS (
        SELECT claimed.id, claimed.fence, job.task, claimed.lane, claimed.priority, claimed.due_at,
            claimed.attempt, claimed.crashes, claimed.generation, claimed.hooks,
            CASE WHEN octet_length(job.args) <= inline_ THEN job.args END AS args,
            job.codec, job.options, job.params, job.tags
        FROM claimed
        CROSS JOIN LATERAL (
            SELECT * FROM detent.detent_job AS job WHERE job.id = claimed.id OFFSET 0
        ) AS job
        ORDER BY
            claimed.priority + CASE WHEN boost_ > 0 THEN
                floor(date_part('epoch', now_ - claimed.due_at) / boost_) ELSE 0 END DESC,
            claimed.due_at,
            claimed.id
    )
    SELECT * FROM best
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        convert_to(json_build_array(
            NULL,
            (SELECT count(*) FROM heads),
            (SELECT count(*) FROM judged WHERE NOT judged.may),
            (
                -- Those that were picked come first.
                SELECT json_build_array(
                    judged.priority, date_part('epoch', now_ - judged.due_at)
                )
                FROM judged
                WHERE judged.may
                    AND (SELECT count(*) FROM picked)
                        < (SELECT count(*) FROM judged WHERE judged.may)
                ORDER BY judged.age DESC, judged.due_at, judged.id
                LIMIT 1 OFFSET (SELECT count(*) FROM picked)
            ),
            (
                -- They are in order.
                SELECT json_build_array(heads.priority, date_part('epoch', now_ - heads.due_at))
                FROM heads
                LIMIT 1 OFFSET walk_ - 1
            ),
            (
                SELECT date_part('epoch', min(next.due_at) - now_)
                FROM generate_series(0, 4) AS level (priority)
                CROSS JOIN LATERAL (
                    SELECT ready.due_at
                    FROM detent.detent_ready AS ready
                    WHERE split_part(ready.lane, '#', 1)
                            || CASE WHEN right(ready.lane, 2) = '+!' THEN '+!' ELSE '' END
                            = family_
                        AND split_part(ready.lane, '~', 2) LIKE 'task:%#%'
                        AND split_part(ready.lane, '~', 3) = ''
                        AND ready.priority = level.priority::smallint
                        AND ready.due_at > now_
                    ORDER BY ready.due_at, ready.id
                    LIMIT 1
                ) AS next
            ),
            (SELECT count(*) FROM judged WHERE judged.rank = 1),
            (
                SELECT json_agg(json_build_array(
                    first.priority, round(date_part('epoch', first.due_at) * 1e6)::bigint, first.id
                ))
                FROM (SELECT DISTINCT heads.priority FROM heads) AS level
                CROSS JOIN LATERAL (
                    (
                        SELECT 1 AS place, heads.priority, heads.due_at, heads.id FROM heads
                        WHERE heads.priority = level.priority AND heads.lane <> ALL (without_)
                        ORDER BY heads.due_at, heads.id
                        LIMIT 1
                    )
                    UNION ALL
                    (
                        -- Behind lanes that are claimed from by themselves, if there are no others.
                        SELECT 2, heads.priority, heads.due_at, heads.id FROM heads
                        WHERE heads.priority = level.priority AND cardinality(without_) > 0
                        ORDER BY heads.due_at DESC, heads.id DESC
                        LIMIT 1
                    )
                    ORDER BY 1
                    LIMIT 1
                ) AS first
            ),
            (
                SELECT json_agg(crowd.lane)
                FROM (
                    SELECT judged.lane FROM judged
                    WHERE NOT judged.may
                    GROUP BY judged.lane
                    HAVING count(*) >= greatest(walk_ / 16, 8)
                    ORDER BY count(*) DESC, judged.lane
                    LIMIT 16
                ) AS crowd
            )
        )::text, 'UTF8'),
        NULL::text, NULL::bytea, NULL::bytea, NULL::text[];
END $$;

-- A payload as JSON. One that is encrypted, or made by another codec, is only described: no JSON
-- begins with the byte 0, as all that is encrypted does.
CREATE FUNCTION detent.detent_shown(data bytea, codec text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN data IS NULL THEN NULL
        WHEN codec = 'json' AND substring(data FROM 1 FOR 1) NOT IN ('\x', '\x00')
            THEN convert_from(data, 'UTF8')::jsonb
        ELSE to_jsonb(format('<%s bytes of %s>', length(data),
            CASE WHEN substring(data FROM 1 FOR 1) = '\x00' THEN 'encrypted data' ELSE codec END))
    END
$$;

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
    progress.message AS progress_message,
    detent.detent_shown(job.args, job.codec) AS args_json,
    detent.detent_shown(job.params, job.codec) AS params_json,
    detent.detent_shown(outcome.result, 'json') AS result_json,
    detent.detent_shown(outcome.error, 'json') AS error_json
FROM detent.detent_job AS job
LEFT JOIN detent.detent_ready AS ready ON ready.id = job.id
LEFT JOIN detent.detent_running AS running ON running.id = job.id
LEFT JOIN detent.detent_parked AS parked ON parked.id = job.id
LEFT JOIN detent.detent_outcome AS outcome ON outcome.id = job.id
LEFT JOIN detent.detent_progress AS progress ON progress.id = running.id;
