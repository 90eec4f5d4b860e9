-- Events that must reach somebody outside, and alerts about failures of one kind.

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
